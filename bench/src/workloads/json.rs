//! Documents of a web service: parsed to a tree, changed, written again. The last few trees are held.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::{End, Scale};

const ROUNDS: usize = 60;
/// Different documents.
const DOCUMENTS: u64 = 8;
const USERS: usize = 250;
/// Trees that are held at a time.
const HELD: usize = 8;

pub(crate) fn run(scale: Scale) -> End {
    let texts: Vec<String> = (0..DOCUMENTS).map(|seed| document(seed).to_string()).collect();
    let mut trees = VecDeque::new();
    let mut checksum = 0;
    for round in 0..scale.of(ROUNDS) {
        for text in &texts {
            let mut tree: Value = serde_json::from_str(text).expect("written by the same library");
            change(&mut tree, round);
            checksum += tree.to_string().len() as u64;
            trees.push_back(tree);
            if trees.len() > HELD {
                trees.pop_front();
            }
        }
    }
    End::new(checksum, (texts, trees))
}

fn document(seed: u64) -> Value {
    let mut rng = fastrand::Rng::with_seed(seed);
    let users: Vec<Value> = (0..USERS).map(|id| user(id, &mut rng)).collect();
    json!({ "version": 3, "page": seed, "users": users, "next": format!("https://api.example.org/users?page={seed}") })
}

fn user(id: usize, rng: &mut fastrand::Rng) -> Value {
    let word = |rng: &mut fastrand::Rng| -> String {
        let length = rng.usize(3..12);
        (0..length).map(|_| rng.lowercase()).collect()
    };
    let tags: Vec<String> = (0..rng.usize(..8)).map(|_| word(rng)).collect();
    let orders: Vec<Value> = (0..rng.usize(..6))
        .map(|order| json!({ "order": order, "price": rng.f64() * 100.0, "items": [word(rng), word(rng)], "paid": rng.bool() }))
        .collect();
    json!({
        "id": id, "name": word(rng), "mail": format!("{}@example.org", word(rng)), "score": rng.f64(),
        "about": (0..rng.usize(..40)).map(|_| word(rng)).collect::<Vec<_>>().join(" "),
        "address": { "street": word(rng), "city": word(rng), "zip": rng.u32(..99_999) },
        "tags": tags, "orders": orders, "manager": Value::Null,
    })
}

/// As a handler would: one field more, one less, one replaced.
fn change(tree: &mut Value, round: usize) {
    let Some(users) = tree["users"].as_array_mut() else { return };
    for user in users.iter_mut().filter_map(Value::as_object_mut) {
        user.insert("seen".to_owned(), json!(round));
        user.remove("manager");
        user.insert("name".to_owned(), json!(format!("user {round}")));
    }
    users.retain(|user| user["score"].as_f64().is_some_and(|score| score > 0.1));
}

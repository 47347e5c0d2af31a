//! The heap before and after, as pictures.

use std::path::Path;

use meshheap_examples::heap_map::{Panel, pair, single};
use meshheap_examples::lua::experiment::{Outcome, Snapshot};

/// Writes them into `folder` and says where they are.
pub(crate) fn write(outcome: &Outcome, script: &str, folder: &Path) -> Result<(), String> {
    let title = format!("A heap that ran {script}");
    let before = panel("before meshing", &outcome.before);
    let after = panel("after meshing", &outcome.after);
    let pictures = [
        ("before", single(&title, &before)),
        ("after", single(&title, &after)),
        ("before-and-after", pair(&title, &before, &after)),
    ];
    println!("Pictures of every page:");
    for (name, picture) in pictures {
        let paths = picture.write(folder, name).map_err(|error| format!("cannot write a picture: {error}"))?;
        println!("  {}  {}", paths[0].display(), paths[1].display());
    }
    Ok(())
}

fn panel<'a>(caption: &'a str, at: &'a Snapshot) -> Panel<'a> {
    Panel {
        caption,
        map: &at.map,
        live: at.live,
        held: at.heap.held_bytes,
        metadata: at.heap.metadata_bytes,
        dirty: at.heap.dirty_bytes,
    }
}

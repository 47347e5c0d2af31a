// A small operating system: tasks of four kinds pass packets to each other by priority. Many small objects that live long,
// and many calls.
class Packet {
  constructor(link, task, kind) {
    this.link = link; this.task = task; this.kind = kind; this.datum = 0; this.data = [0, 0, 0, 0];
  }
  appendTo(queue) {
    this.link = null;
    if (queue === null) return this;
    let last = queue;
    while (last.link !== null) last = last.link;
    last.link = this;
    return queue;
  }
}

class Task {
  constructor(system, id, priority, queue) {
    this.system = system; this.id = id; this.priority = priority; this.queue = queue;
    this.waiting = queue === null; this.held = false; this.next = system.tasks;
    system.tasks = this; system.table[id] = this;
  }
  take() {
    const packet = this.queue;
    if (packet !== null) this.queue = packet.link;
    return packet;
  }
  put(packet) { this.queue = packet.appendTo(this.queue); this.waiting = false; }
}

class Idle extends Task {
  constructor(system, id, count) { super(system, id, 0, null); this.seed = 1; this.count = count; this.waiting = false; }
  step() {
    if (--this.count === 0) { this.held = true; return; }
    this.seed = (this.seed & 1) === 0 ? this.seed >> 1 : (this.seed >> 1) ^ 0xd008;
    this.system.release((this.seed & 1) === 0 ? 4 : 5);
  }
}

class Worker extends Task {
  constructor(system, id, queue) { super(system, id, 1000, queue); this.to = 2; this.letter = 0; }
  step() {
    const packet = this.take();
    if (packet === null) { this.waiting = true; return; }
    this.to = 5 - this.to;
    packet.task = this.to;
    packet.data = packet.data.map(() => 65 + (this.letter = (this.letter + 1) % 26));
    this.system.send(packet, this.id);
  }
}

class Handler extends Task {
  constructor(system, id, queue) { super(system, id, 2000, queue); this.work = null; this.devices = null; }
  step() {
    for (let packet = this.take(); packet !== null; packet = this.take()) {
      if (packet.kind === "work") this.work = packet.appendTo(this.work); else this.devices = packet.appendTo(this.devices);
    }
    if (this.work === null) { this.waiting = true; return; }
    const work = this.work;
    if (work.datum >= work.data.length) {
      this.work = work.link; work.datum = 0; work.task = 1;
      this.system.send(work, this.id);
    } else if (this.devices !== null) {
      const device = this.devices;
      this.devices = device.link;
      device.datum = work.data[work.datum++];
      device.task = this.id + 2;
      this.system.send(device, this.id);
    } else this.waiting = true;
  }
}

class Device extends Task {
  constructor(system, id) { super(system, id, 4000, null); this.pending = null; }
  step() {
    const packet = this.take();
    if (packet !== null) { this.pending = packet; this.held = true; return; }
    if (this.pending === null) { this.waiting = true; return; }
    const done = this.pending;
    this.pending = null; done.task = this.id - 2;
    this.system.send(done, this.id);
  }
}

class System {
  constructor() { this.tasks = null; this.table = []; this.sent = 0; this.steps = 0; }
  send(packet, from) { this.sent++; packet.link = null; const to = this.table[packet.task]; packet.task = from; to.put(packet); }
  release(id) { this.table[id].held = false; this.table[id].waiting = false; }
  run(limit) {
    while (this.steps < limit) {
      let best = null;
      for (let task = this.tasks; task !== null; task = task.next)
        if (!task.held && !(task.waiting && task.queue === null) && (best === null || task.priority > best.priority)) best = task;
      if (best === null) break;
      this.steps++;
      best.step();
    }
  }
}

function queue(task, kind, count) {
  let all = null;
  for (let i = 0; i < count; i++) all = new Packet(all, task, kind);
  return all;
}

function run(scale) {
  let sum = 0;
  for (let round = 0; round < scale; round++) {
    const system = new System();
    new Idle(system, 0, 1000);
    new Worker(system, 1, queue(1, "work", 2));
    new Handler(system, 2, queue(4, "device", 3));
    new Handler(system, 3, queue(5, "device", 3));
    new Device(system, 4);
    new Device(system, 5);
    system.run(3000);
    sum = (sum * 31 + system.sent * 7 + system.steps) % 1000003;
  }
  return sum;
}

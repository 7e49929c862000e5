// Does in images without Python what container_runner.py does, which says how frames are made.
"use strict";
const fs = require("fs");
const net = require("net");
const { constants } = require("os");
const { spawn } = require("child_process");

const CONTROL = 0, OUTPUT = 1, ERRORS = 2, HEADER = 8;
const ends = new Map();
let connections = 16, rest = Buffer.alloc(0), starting = false, closed = true, grace = 0;

function send(number, data = Buffer.alloc(0)) {
  const header = Buffer.alloc(HEADER);
  header.writeUInt32BE(number, 0);
  header.writeUInt32BE(data.length, 4);
  const frame = Buffer.concat([header, data]);
  for (let at = 0; at < frame.length; ) at += fs.writeSync(1, frame, at);
}

function carry(number, readable) {
  readable.on("data", (data) => send(number, data));
  readable.on("end", () => send(number));
  readable.on("error", () => send(number));
}

function accept(socket) {
  const number = connections++;
  ends.set(number, { write: (data) => socket.write(data), end: () => socket.destroySoon() });
  socket.on("close", () => ends.delete(number));
  carry(number, socket);
}

function start(order) {
  starting = true;
  grace = 1000 * order.grace;
  const image = Object.entries(process.env).filter(([name]) => !/^(https?|no)_proxy$/i.test(name));
  const env = { ...Object.fromEntries(image), ...order.environ };
  const run = () => {
    const [program, ...args] = order.command;
    const command = spawn(program, args, { cwd: order.folder, env, detached: true });
    starting = false;
    closed = command.pid === undefined;
    command.on("error", (refused) => {
      send(CONTROL, Buffer.from(JSON.stringify({ refused: refused.message })));
    });
    if (closed) return;
    send(CONTROL, Buffer.from('{"started": true}'));
    command.stdin.on("error", () => {});
    ends.set(OUTPUT, command.stdin);
    carry(OUTPUT, command.stdout);
    carry(ERRORS, command.stderr);
    command.on("close", () => { closed = true; });
    command.on("exit", (code, signal) => {
      const status = code === null ? -constants.signals[signal] : code;
      send(CONTROL, Buffer.from(JSON.stringify({ status, memory_kills: memoryKills() })));
    });
    take(Buffer.alloc(0));
  };
  net.createServer({ allowHalfOpen: true }, accept).listen(order.port, "127.0.0.1", 256, run);
}

function memoryKills() {
  for (const name of ["memory.events", "memory/memory.oom_control"]) {
    try {
      return Number(/^oom_kill (\d+)/m.exec(fs.readFileSync(`/sys/fs/cgroup/${name}`, "ascii"))[1]);
    } catch {}
  }
  return 0;
}

function take(data) {
  rest = Buffer.concat([rest, data]);
  // What follows the first frame waits until the port is open and the command has started.
  while (!starting && rest.length >= HEADER) {
    const number = rest.readUInt32BE(0), length = rest.readUInt32BE(4);
    if (rest.length < HEADER + length) break;
    const body = rest.subarray(HEADER, HEADER + length);
    rest = rest.subarray(HEADER + length);
    if (number === CONTROL) start(JSON.parse(body.toString()));
    else if (length) ends.get(number)?.write(body);
    else ends.get(number)?.end();
  }
}
process.stdin.on("data", take);

function signalOthers(number) {
  try {
    return process.kill(-1, number);
  } catch {
    return false;
  }
}

process.stdin.on("end", () => {
  const end = Date.now() + grace;
  signalOthers("SIGTERM");
  setInterval(() => {
    const late = Date.now() > end;
    if (signalOthers(late ? "SIGKILL" : 0) ? Date.now() > end + 1000 : closed || Date.now() > end + 1000) process.exit(0);
  }, 20);
});
for (const name of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(name, () => {});

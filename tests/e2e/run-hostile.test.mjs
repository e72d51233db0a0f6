// `crosscheck run` against tests that mean it harm, real PyTorch's harness around them; interrupted at any moment; two at once.
import assert from 'node:assert/strict';
import {spawn, spawnSync} from 'node:child_process';
import {existsSync, readFileSync, readdirSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {crosscheck, eventually, isGone, python, run, temporaryFolder, write} from './harness.mjs';

const HOSTILE = `
import ctypes, os, shutil, signal, sys, tempfile, time, unittest

MARKS = os.environ["MARKS"]
def mark(name):
    with open(os.path.join(MARKS, name), "a") as file: file.write(f"{os.getpid()}\\n")

class TestHostile(unittest.TestCase):
    def test_a_prints(self):
        for _ in range(100): os.write(1, b"x" * (1 << 20))
    def test_b_leaves_a_daemon(self):
        if os.fork() == 0:
            mark("daemon")
            while True: time.sleep(3600)
    def test_c_forks_and_returns(self):
        if os.fork() == 0: return  # goes on as if it were the process
        os.wait()
    def test_d_ignores_sigterm(self): signal.signal(signal.SIGTERM, signal.SIG_IGN)
    def test_e_changes_folder(self):
        folder = tempfile.mkdtemp()
        os.chdir(folder)
        shutil.rmtree(folder)
    def test_f_uses_up_descriptors(self):
        try:
            while True: os.open("/dev/null", os.O_RDONLY)
        except OSError: pass
    def test_g_exits(self): os._exit(0)
    def test_h_segfaults(self): ctypes.string_at(0)
    def test_i_takes_all_memory(self):
        held = []
        while True: held.append(os.urandom(1 << 20) * 16)
    def test_j_hangs_and_does_not_listen(self):
        for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
        while True: time.sleep(3600)
    def test_k_closes_its_output(self):
        os.close(1)
        os.close(2)
    def test_l_closes_everything(self): os.closerange(0, 4096)
    def test_m_kills_its_parent_s_child(self): os.kill(os.getpid(), signal.SIGKILL)
    def test_z_is_reached(self): pass
`;

function start(t, args, env, options = {}) {
  const child = spawn(crosscheck, args, {
    env: {...process.env, CROSSCHECK_PYTHON: python, CI: 'true', ...env},
    stdio: ['ignore', 'pipe', 'pipe'],
    ...options,
  });
  let out = '';
  child.stdout.on('data', (text) => (out += text));
  child.stderr.on('data', (text) => (out += text));
  const ended = new Promise((resolve) => {
    child.once('exit', (code, signal) => resolve({code, signal, out: () => out}));
  });
  t.after(() => child.kill('SIGKILL'));
  return {child, ended};
}

const results = (file) =>
  readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));

test('each hostile test costs itself alone, and nothing of it is left', async (t) => {
  const folder = temporaryFolder(t);
  write(folder, 'test_hostile.py', HOSTILE);
  const file = join(folder, 'results.jsonl');
  const done = run(
    ['run', '--suite', folder, '--db', join(folder, 'c.db'), '--results', file, '--timeout', '20', '--memory', '1500'],
    {cwd: folder, env: {CROSSCHECK_PYTHON: python, CI: 'true', MARKS: folder}},
  );
  assert.equal(done.code, 1, done.err);
  const outcomes = Object.fromEntries(
    results(file)
      .slice(1, -1)
      .map(({method, outcome, kind}) => [method, kind ? `${outcome} ${kind}` : outcome]),
  );
  assert.deepEqual(outcomes, {
    test_a_prints: 'passed',
    test_b_leaves_a_daemon: 'passed',
    test_c_forks_and_returns: 'passed',
    test_d_ignores_sigterm: 'passed',
    test_e_changes_folder: 'passed',
    test_f_uses_up_descriptors: 'passed',
    test_g_exits: 'crashed other',
    test_h_segfaults: 'crashed signal',
    test_i_takes_all_memory: 'crashed out_of_memory',
    test_j_hangs_and_does_not_listen: 'timed_out timeout',
    test_k_closes_its_output: 'passed',
    test_l_closes_everything: 'crashed other',
    test_m_kills_its_parent_s_child: 'crashed signal',
    test_z_is_reached: 'passed',
  });
  const [daemon] = readFileSync(join(folder, 'daemon'), 'utf8').split('\n');
  await eventually('the daemon is gone', () => isGone(daemon));
});

const SLOW = `
import os, time, unittest
MARKS = os.environ["MARKS"]
def mark(name): open(os.path.join(MARKS, name), "w").close()
mark("imported")
while os.path.exists(os.path.join(MARKS, "hold-import")): time.sleep(0.02)

class TestSlow(unittest.TestCase):
    def test_a(self): mark("first")
    def test_b(self):
        mark("second")
        while os.path.exists(os.path.join(MARKS, "hold-test")): time.sleep(0.02)
    def test_c(self): pass
`;

// What is held, what tells that the moment has come, and whether anything was kept by then.
for (const {moment, hold, mark, kept} of [
  {moment: 'before it has started anything', hold: 'hold-import', kept: false},
  {moment: 'while files are imported to be collected', hold: 'hold-import', mark: 'imported', kept: false},
  {moment: 'in a test', hold: 'hold-test', mark: 'second', kept: true},
]) {
  test(`Ctrl-C ${moment}: it ends, whole files or none, and the run is not left open`, async (t) => {
    const folder = temporaryFolder(t);
    write(folder, 'test_slow.py', SLOW);
    write(folder, hold, '');
    const file = join(folder, 'results.jsonl');
    const db = join(folder, 'c.db');
    const {child, ended} = start(t, ['run', '--suite', folder, '--db', db, '--results', file, '-j', '1'], {
      MARKS: folder,
    });
    if (mark) await eventually(moment, () => existsSync(join(folder, mark)));
    else await eventually('it runs', () => existsSync(db));
    child.kill('SIGINT');
    const {code, signal, out} = await ended;
    // Before it listens, the signal itself ends it, and nothing has begun.
    assert.ok(code === 1 || code === 4 || (!mark && signal === 'SIGINT'), `${code} ${out()}`);
    assert.equal(existsSync(file), kept, out());
    if (kept) {
      const [header, ...rest] = results(file);
      assert.equal(header.interrupted, true);
      assert.deepEqual(rest.slice(0, -1).map(({outcome}) => outcome).sort(), ['not_run', 'not_run', 'passed']);
    }
    assert.deepEqual(ends(db), kept ? ['interrupted'] : []);
  });
}

test('a file that hangs while it is imported costs itself, after --collect-timeout', (t) => {
  const folder = temporaryFolder(t);
  write(folder, 'test_a_hangs.py', 'import time\ntime.sleep(3600)\n');
  write(folder, 'test_b.py', 'def test_b(): pass\n');
  const file = join(folder, 'results.jsonl');
  const done = run(
    ['run', '--suite', folder, '--no-store', '--results', file, '--collect-timeout', '30', '-j', '1'],
    {cwd: folder, env: {CROSSCHECK_PYTHON: python, CI: 'true'}},
  );
  assert.equal(done.code, 1, done.err);
  assert.match(done.out, /test_a_hangs\.py.*said nothing for 30.*--collect-timeout/);
  assert.match(done.out, /1 passed/);
});

test('two runs at once on one store: both whole', async (t) => {
  const folder = temporaryFolder(t);
  write(folder, 'test_slow.py', SLOW);
  const db = join(folder, 'c.db');
  const both = ['one', 'two'].map((name) =>
    start(t, ['run', '--suite', folder, '--db', db, '--results', join(folder, `${name}.jsonl`), '-j', '1'], {
      MARKS: folder,
    }),
  );
  for (const {ended} of both) {
    const {code, out} = await ended;
    assert.equal(code, 0, out());
  }
  assert.deepEqual(ends(db), ['complete', 'complete']);
  const ids = ['one', 'two'].map((name) => results(join(folder, `${name}.jsonl`))[0].run_id);
  assert.notEqual(ids[0], ids[1]);
});

test('a full disk: what could be kept is, and exit code 4 names the file', (t) => {
  const folder = temporaryFolder(t);
  write(folder, 'test_slow.py', SLOW);
  const db = join(folder, 'c.db');
  const done = run(['run', '--suite', folder, '--db', db, '--results', '/dev/full'], {
    cwd: folder,
    env: {CROSSCHECK_PYTHON: python, CI: 'true', MARKS: folder},
  });
  assert.equal(done.code, 4, done.err);
  assert.match(done.err, /\/dev\/full/);
  assert.match(done.err, /No space left/);
  assert.deepEqual(ends(db), ['complete']);
});

// How the store's runs ended; none where it was not brought forward to have any.
function ends(db) {
  const {stdout, stderr, status} = spawnSync(
    python,
    [
      '-c',
      'import json, sqlite3, sys\n' +
        'db = sqlite3.connect(sys.argv[1])\n' +
        'there = db.execute("SELECT 1 FROM pragma_table_info(\'runs\') WHERE name = \'ended\'").fetchall()\n' +
        'rows = db.execute("SELECT ended FROM runs ORDER BY id").fetchall() if there else []\n' +
        'print(json.dumps([row[0] for row in rows]))',
      db,
    ],
    {encoding: 'utf8'},
  );
  assert.equal(status, 0, stderr);
  return JSON.parse(stdout);
}

// Daemons as they are written to survive: a session of their own, a parent that is gone, deaf to SIGTERM.
const ESCAPING = `
import ctypes, os, signal, time, unittest
MARKS = os.environ["MARKS"]
def escape(name, variables):
    told, tell = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0: os._exit(0)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
        with open(os.path.join(MARKS, "escaped"), "a") as file: file.write(f"{os.getpid()} {name}\\n")
        os.write(tell, b"x")
        os.execve("/bin/sh", ["sh", "-c", "while :; do sleep 3600; done"], variables)
    os.close(tell)
    os.read(told, 1)
    os.wait()

class TestEscaping(unittest.TestCase):
    def test_a_bare(self): escape("a", {})
    def test_b_crashes(self):
        escape("b", os.environ)
        ctypes.string_at(0)
    def test_c_hangs(self):
        escape("c", {})
        for number in (signal.SIGTERM, signal.SIGABRT, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
        while True: time.sleep(3600)
    def test_d_waits(self):
        escape("d", os.environ)
        open(os.path.join(MARKS, "last"), "w").close()
        while os.path.exists(os.path.join(MARKS, "hold")): time.sleep(0.02)
`;

// Children that have ended, and that it has not asked about.
function zombiesOf(parent) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        const fields = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1).split(' ');
        return fields[0] === 'Z' && Number(fields[1]) === parent;
      } catch {
        return false;
      }
    });
}

for (const {how, end, select} of [
  {how: 'a crash, a hang and its end', end: ({folder}) => rmSync(join(folder, 'hold'))},
  {how: "Ctrl-C, which the terminal's whole group gets", end: ({child}) => process.kill(-child.pid, 'SIGINT'), select: '/test_[abd]/'},
  {how: 'SIGKILL', end: ({child}) => child.kill('SIGKILL'), select: '/test_[abd]/'},
]) {
  test(`no daemon of a test outlives ${how}, and no zombie is kept`, async (t) => {
    const folder = temporaryFolder(t);
    write(folder, 'test_escaping.py', ESCAPING);
    write(folder, 'hold', '');
    const beside = spawn('sh', ['-c', 'while :; do sleep 3600; done'], {detached: true, stdio: 'ignore'});
    t.after(() => process.kill(-beside.pid, 'SIGKILL'));
    const {child, ended} = start(
      t,
      ['run', '--suite', folder, '--no-store', '-j', '2', '--timeout', '8', '--select', select ?? 'Escaping'],
      {MARKS: folder},
      {detached: true},
    );
    const escaped = () =>
      readFileSync(join(folder, 'escaped'), 'utf8')
        .trim()
        .split('\n')
        .map((line) => line.split(' '));
    await eventually('the last test is reached', () => existsSync(join(folder, 'last')), 120);
    const before = escaped();
    // Two at a time come in any order.
    assert.deepEqual(before.map(([, name]) => name).sort(), select ? ['a', 'b', 'd'] : ['a', 'b', 'c', 'd']);
    for (const [pid, name] of before) assert.equal(isGone(pid), name !== 'd', name);
    assert.deepEqual(zombiesOf(child.pid), []);
    end({child, folder});
    const {out} = await ended;
    for (const [pid, name] of before) await eventually(`${name} is gone: ${out()}`, () => isGone(pid));
    assert.equal(isGone(beside.pid), false);
  });
}

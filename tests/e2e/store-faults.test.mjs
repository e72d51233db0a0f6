// A database that is locked, full or read-only: a clear error, and no half-written state.
import assert from 'node:assert/strict';
import {spawn, spawnSync} from 'node:child_process';
import {once} from 'node:events';
import {existsSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {
  crosscheck,
  dispatched,
  eventually,
  long,
  pullRequest,
  python,
  recordingSettings,
  run,
  secret,
  send,
  serve,
  temporaryFolder,
} from './harness.mjs';

const SELECT = '/TestForwardFloat.*test_forward_(mm|add)_refdev_float32/';
const runTests = (folder, db, options = {}) =>
  run(
    [
      'run',
      '--device',
      'refdev',
      '--db',
      db,
      '--junit',
      join(folder, 'junit.xml'),
      '--results',
      join(folder, 'results.jsonl'),
      '--select',
      SELECT,
      '--json',
    ],
    {cwd: folder, env: {CROSSCHECK_PYTHON: python, CI: 'true'}, ...options},
  );

function migrate(db) {
  const {code, err} = run(['db', 'migrate', '--db', db]);
  assert.equal(code, 0, err);
}

const rows = (db) => JSON.parse(run(['db', 'status', '--json', '--db', db]).out).rows;

// Another process that has the database locked for writing until it is told to end.
async function lock(t, db) {
  const script =
    'import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); ' +
    'c.execute("BEGIN IMMEDIATE"); print("locked", flush=True); sys.stdin.read(); c.execute("ROLLBACK")';
  const child = spawn(python, ['-c', script, db], {stdio: ['pipe', 'pipe', 'inherit']});
  const ended = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  await once(child.stdout, 'data');
  return async () => {
    child.stdin.end();
    await ended;
  };
}

// Mounting needs a user namespace, which some machines do not give.
const namespaces =
  spawnSync('unshare', ['-Urm', 'mount', '-t', 'tmpfs', 'none', '/mnt']).status === 0;
const skip = !namespaces && 'this machine gives no user namespaces (unshare -Urm)';

// Runs a command with `folder` on a file system of its own: `prepare` mounts it.
const inNamespace = (prepare, ...command) =>
  spawnSync('unshare', ['-Urm', 'sh', '-ec', `${prepare}\n"$@"`, 'sh', ...command], {
    encoding: 'utf8',
    env: {...process.env, CROSSCHECK_PYTHON: python, CI: 'true'},
    timeout: 120_000,
  });

test('locked by another process: the run ends with exit code 4 and says so', async (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'crosscheck.db');
  migrate(db);
  const unlock = await lock(t, db);
  const {code, err} = runTests(folder, db);
  assert.equal(code, 4, err);
  assert.match(err, /locked/);
  assert.match(err, /crosscheck\.db/);
  await unlock();
  assert.equal(rows(db).runs, 0);
  assert.equal(rows(db).test_results, 0);
  assert.ok([0, 1].includes(runTests(folder, db).code), 'works once it is free');
  assert.equal(rows(db).runs, 1);
});

test('locked while the server runs: events are refused whole, and taken when it is free', async (t) => {
  const folder = temporaryFolder(t);
  const server = await serve(t, {folder, settings: recordingSettings(folder)});
  const db = join(folder, 'crosscheck.db');
  const unlock = await lock(t, db);
  const event = {body: pullRequest(), secret, delivery: 'while-locked'};
  const refused = await send(server.url, event);
  assert.equal(refused.status, 503);
  assert.ok(refused.answer.detail.length > 10);
  assert.equal((await fetch(new URL('/', server.url))).status, 200, 'pages can be read meanwhile');
  await unlock();
  assert.equal(rows(db).deliveries, 0);
  const accepted = await send(server.url, event);
  assert.equal(accepted.status, 202);
  await eventually('it is dispatched', () => dispatched(folder).includes('while-locked'));
  assert.equal(rows(db).deliveries, 1);
});

test('a full disk: the run ends with exit code 4 and says so', {skip}, (t) => {
  const folder = temporaryFolder(t);
  const done = inNamespace(
    `mount -t tmpfs -o size=4m none '${folder}'
    '${crosscheck}' db migrate --db '${join(folder, 'crosscheck.db')}'
    dd if=/dev/zero of='${join(folder, 'filler')}' bs=4k 2>/dev/null || true`,
    crosscheck,
    'run',
    '--device',
    'refdev',
    '--db',
    join(folder, 'crosscheck.db'),
    '--select',
    SELECT,
    '--json',
  );
  assert.equal(done.status, 4, done.stderr);
  assert.match(done.stderr, /full|space/i);
  assert.match(done.stderr, /crosscheck\.db/);
});

test('a disk that is full while the server runs: events are refused whole', {skip}, async (t) => {
  const folder = temporaryFolder(t);
  const settings = join(folder, 'settings.yaml');
  writeFileSync(settings, recordingSettings(folder));
  const disk = join(folder, 'disk');
  // The server in its namespace, on a small disk that a file then fills up to the last block.
  const script = `mkdir -p '${disk}'; mount -t tmpfs -o size=8m none '${disk}'
    mkfifo '${folder}/fill' '${folder}/free'
    { read -r line <'${folder}/fill'; dd if=/dev/zero of='${disk}/filler' bs=4k 2>/dev/null || true; echo full
      read -r line <'${folder}/free'; rm '${disk}/filler'; echo free; } &
    exec "$@"`;
  const child = spawn(
    'unshare',
    [
      '-Urm',
      'sh',
      '-ec',
      script,
      'sh',
      crosscheck,
      'serve',
      '--local',
      '--json',
      '--listen',
      '127.0.0.1:0',
      '--db',
      join(disk, 'crosscheck.db'),
      '--settings',
      settings,
    ],
    {stdio: ['ignore', 'pipe', 'ignore'], detached: true},
  );
  t.after(() => process.kill(-child.pid, 'SIGKILL'));
  let printed = '';
  child.stdout.on('data', (text) => (printed += text));
  const line = (pattern) => eventually(String(pattern), () => printed.match(pattern));
  const [, url] = await line(/"url":"([^"]+)"/);
  assert.equal((await send(url, {body: pullRequest(), secret, delivery: 'before'})).status, 202);
  writeFileSync(join(folder, 'fill'), 'now\n');
  await line(/^full$/m);
  // What the write-ahead log still has room for is taken; then there is no more.
  const accepted = ['before'];
  const refused = await eventually('an event is refused', async () => {
    const sent = await send(url, {body: pullRequest(), secret});
    if (sent.status === 202) accepted.push(sent.delivery);
    else return sent;
  });
  assert.equal(refused.status, 503);
  assert.ok(refused.answer.detail.length > 10);
  const ready = async () => (await fetch(`${url}/readyz`)).status;
  await eventually('it is not ready', async () => (await ready()) === 503);
  writeFileSync(join(folder, 'free'), 'now\n');
  await line(/^free$/m);
  await eventually('it is ready again', async () => (await ready()) === 200);
  const again = await send(url, {body: pullRequest(), secret, delivery: refused.delivery});
  assert.equal(again.status, 202);
  await eventually('everything accepted is dispatched', () =>
    [...accepted, refused.delivery].every((delivery) => dispatched(folder).includes(delivery)),
  );
});

test('read-only: the run and the server end with exit code 4 and say so', {skip}, (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'crosscheck.db');
  const settings = join(folder, 'settings.yaml');
  writeFileSync(settings, recordingSettings(folder));
  migrate(db);
  const readOnly = `mount --bind '${folder}' '${folder}'; mount -o remount,ro,bind '${folder}'`;
  for (const command of [
    ['run', '--device', 'refdev', '--db', db, '--select', SELECT, '--json'],
    ['serve', '--local', '--listen', '127.0.0.1:0', '--db', db, '--settings', settings, '--json'],
  ]) {
    const done = inNamespace(readOnly, crosscheck, ...command);
    assert.equal(done.status, 4, `${command[0]}: ${done.stderr}`);
    assert.match(done.stderr, /read.?only/i);
  }
  assert.equal(rows(db).runs, 0);
});

test('a database that is none, or of a newer crosscheck, is refused and left as it is', (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'text.db');
  writeFileSync(db, 'this is a text file, and a long one, which no database is\n'.repeat(100));
  const {code, err} = runTests(folder, db);
  assert.ok([3, 4].includes(code), err);
  assert.match(err, /text\.db/);
  assert.ok(!existsSync(join(folder, 'junit.xml')));
});

test(
  'unlocked and locked again and again under load',
  {skip: !long && 'CROSSCHECK_LONG=1 runs it'},
  async (t) => {
    const folder = temporaryFolder(t);
    const server = await serve(t, {folder, settings: recordingSettings(folder)});
    const db = join(folder, 'crosscheck.db');
    const accepted = [];
    for (let round = 0; round < 10; round += 1) {
      const unlock = await lock(t, db);
      const sends = Array.from({length: 8}, () => send(server.url, {body: pullRequest(), secret}));
      if (round % 2 === 0) await sends[0];
      await unlock();
      for (const {status, delivery} of await Promise.all(sends)) {
        assert.ok([202, 503].includes(status), `answered ${status}`);
        if (status === 202) accepted.push(delivery);
      }
    }
    await eventually('everything accepted is dispatched', () =>
      accepted.every((delivery) => dispatched(folder).includes(delivery)),
    );
    assert.equal(rows(db).deliveries, accepted.length);
  },
);

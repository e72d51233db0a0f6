// `crosscheck db`: the store on both engines, as a person looks at it and brings it forward.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {mkdirSync, readdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {postgres, python, run, temporaryFolder} from './harness.mjs';

for (const engine of ['sqlite', 'postgresql']) {
  test(`${engine}: migrate makes the schema once, and status shows it`, async (t) => {
    const db = engine === 'sqlite' ? join(temporaryFolder(t), 'new/store.db') : await postgres(t);
    const first = run(['db', 'migrate', '--json', '--db', db]);
    assert.equal(first.code, 0, first.err);
    const {from, to} = JSON.parse(first.out);
    assert.equal(from, 0);
    assert.ok(to >= 1);
    const second = run(['db', 'migrate', '--db', db]);
    assert.equal(second.code, 0, second.err);
    assert.match(second.out, new RegExp(`at schema ${to} already`));

    const status = run(['db', 'status', '--json', '--db', db]);
    assert.equal(status.code, 0, status.err);
    const shown = JSON.parse(status.out);
    assert.equal(shown.engine, engine);
    assert.deepEqual(shown.schema, {current: to, latest: to});
    assert.equal(shown.rows.deliveries, 0);
    const words = run(['db', 'status', '--db', db]);
    assert.match(words.out, new RegExp(`^${engine} `));
    assert.match(words.out, /up to date/);
    assert.match(words.out, /^deliveries +0 rows$/m);
  });
}

test('postgresql: an empty database is shown as what it is, and left so', async (t) => {
  const db = await postgres(t);
  for (let i = 0; i < 2; ++i) {
    const status = run(['db', 'status', '--json', '--db', db]);
    assert.equal(status.code, 0, status.err);
    assert.equal(JSON.parse(status.out).schema.current, 0);
  }
});

test('a missing database is not made by status, which says how to make it', (t) => {
  const db = join(temporaryFolder(t), 'store.db');
  for (let i = 0; i < 2; ++i) {
    const {code, err} = run(['db', 'status', '--db', db]);
    assert.equal(code, 3);
    assert.ok(err.includes(`crosscheck db migrate --db ${db}`), err);
  }
});

test('what is no database is refused and left as it is', (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'text');
  writeFileSync(file, 'x'.repeat(8192));
  mkdirSync(join(folder, 'folder'));
  for (const db of [file, join(folder, 'folder')]) {
    for (const command of ['status', 'migrate']) {
      const {code, err} = run(['db', command, '--db', db]);
      assert.equal(code, 3, err);
      assert.ok(err.includes(db), err);
    }
  }
});

test('sqlite: status leaves nothing beside a file, whosever it is', (t) => {
  const folder = temporaryFolder(t);
  const [ours, foreign] = [join(folder, 'store.db'), join(folder, 'foreign.db')];
  assert.equal(run(['db', 'migrate', '--db', ours]).code, 0);
  const made = spawnSync(python, [
    '-c',
    'import sqlite3, sys\n' +
      'db = sqlite3.connect(sys.argv[1])\n' +
      'db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE t (x)")\n' +
      'db.close()',
    foreign,
  ]);
  assert.equal(made.status, 0, String(made.stderr));
  const before = readdirSync(folder);
  assert.equal(run(['db', 'status', '--db', ours]).code, 0);
  run(['db', 'status', '--db', foreign]);
  assert.deepEqual(readdirSync(folder), before);
});

test('a server that is not there: exit code 4, and no password', () => {
  const {code, err} = run(['db', 'status', '--db', 'postgresql://u:hush@127.0.0.1:1/db']);
  assert.equal(code, 4);
  assert.match(err, /postgresql:\/\/u:\*\*\*@127\.0\.0\.1:1\/db/);
  assert.doesNotMatch(err, /hush/);
});

// Backups that restore to the same store, and what goes when its retention is over.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';
import {
  dispatched,
  eventually,
  postgres,
  pullRequest,
  python,
  recordingSettings,
  root,
  run,
  secret,
  send,
  serve,
  temporaryFolder,
} from './harness.mjs';

const DAY_US = 86_400_000_000;

// One statement on either engine; rows as arrays of texts.
function sql(db, statement) {
  if (!db.startsWith('postgresql:')) {
    const {status, stdout, stderr} = spawnSync(
      python,
      [
        '-c',
        'import json, sqlite3, sys\n' +
          'with sqlite3.connect(sys.argv[1]) as db:\n' +
          '  print(json.dumps([list(map(str, row)) for row in db.execute(sys.argv[2]).fetchall()]))',
        db,
        statement,
      ],
      {encoding: 'utf8'},
    );
    assert.equal(status, 0, stderr);
    return JSON.parse(stdout);
  }
  const {status, stdout, stderr} = spawnSync(
    'psql',
    ['--no-psqlrc', '--csv', '--tuples-only', '--dbname', db, '--command', statement],
    {encoding: 'utf8'},
  );
  assert.equal(status, 0, stderr);
  return stdout
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(','));
}

const COMPARED = ['deliveries', 'dispatches', 'access_tokens', 'audit_log', 'allowlist_versions'];
function contents(db) {
  const digest = (table) => {
    const columns = {
      deliveries: 'id, delivery_id, event_type, received_at',
      dispatches: 'id, delivery, repo, state, sent_at',
      access_tokens: 'id, name, digest',
      audit_log: 'id, at, actor, outcome',
      allowlist_versions: 'id, digest, loaded_at',
    }[table];
    return sql(db, `SELECT ${columns} FROM ${table} ORDER BY id`);
  };
  return Object.fromEntries(COMPARED.map((table) => [table, digest(table)]));
}

async function storeInUse(t, db) {
  const folder = temporaryFolder(t);
  const server = await serve(t, {folder, settings: recordingSettings(folder), db});
  const deliveries = [];
  for (let n = 0; n < 3; n += 1) {
    const {delivery} = await send(server.url, {
      body: pullRequest({change: (p) => (p.number = p.pull_request.number = 100 + n)}),
      secret,
    });
    deliveries.push(delivery);
  }
  await eventually('all are dispatched', () => dispatched(folder).length === 3);
  await eventually('all are recorded as sent', async () => {
    const {outbox} = await server.json('/ops.json');
    return outbox.sent.count === 3;
  });
  return {folder, server, deliveries};
}

for (const engine of ['sqlite', 'postgresql']) {
  test(`${engine}: a backup of a store in use restores to the same`, async (t) => {
    const folder = temporaryFolder(t);
    const db = engine === 'sqlite' ? join(folder, 'store.db') : await postgres(t);
    const {server, deliveries} = await storeInUse(t, db);
    run(['token', 'create', '--role', 'operator', '--name', 'alice', '--db', db]);
    const file = join(folder, 'backup');
    const before = contents(db);
    const made = run(['db', 'backup', file, '--json', '--db', db]);
    assert.equal(made.code, 0, made.err);
    assert.equal(JSON.parse(made.out).bytes, statSync(file).size);
    assert.equal(run(['db', 'backup', file, '--db', db]).code, 3, 'it would overwrite a file');
    await send(server.url, {body: pullRequest(), secret}); // is not in the backup
    await server.stop();

    const fresh = engine === 'sqlite' ? join(folder, 'new/restored.db') : await postgres(t);
    const restored = run(['db', 'restore', file, '--db', fresh]);
    assert.equal(restored.code, 0, restored.err);
    assert.deepEqual(contents(fresh), before);
    // A relay runs on it, and knows what it was told before.
    const again = temporaryFolder(t);
    const second = await serve(t, {folder: again, settings: recordingSettings(again), db: fresh});
    const {status, answer} = await send(second.url, {
      body: pullRequest(),
      secret,
      delivery: deliveries[0],
    });
    assert.equal(status, 200);
    assert.equal(answer.duplicate, true);
    await second.stop();

    assert.equal(statSync(file).mode & 0o777, 0o600);

    const refused = run(['db', 'restore', file, '--db', db]);
    assert.equal(refused.code, 3);
    assert.match(refused.err, /--replace/);
    const replaced = run(['db', 'restore', file, '--replace', '--db', db]);
    assert.equal(replaced.code, 0, replaced.err);
    assert.deepEqual(contents(db), before);
    if (engine === 'sqlite') assert.equal(contents(`${db}.replaced`).deliveries.length, 4);
  });

  test(`${engine}: a backup of any older schema takes the place of a store of this one`, async (t) => {
    const folder = temporaryFolder(t);
    const fresh = () => (engine === 'sqlite' ? join(folder, `${Math.random()}.db`) : postgres(t));
    const [old, db] = [await fresh(), await fresh()];
    for (const url of [old, db]) assert.equal(run(['db', 'migrate', '--db', url]).code, 0);
    run(['token', 'create', '--role', 'operator', '--name', 'alice', '--db', old]);
    const before = contents(old);
    // As it was before these migrations, which only make what was not there.
    const migrations = join(root, 'src/store/migrations');
    for (const name of readdirSync(migrations).filter((file) => file >= '0008')) {
      const text = readFileSync(join(migrations, name), 'utf8');
      // Backwards: a table takes its indexes with it.
      for (const [, kind, made] of [...text.matchAll(/^CREATE (TABLE|INDEX) (\w+)/gm)].reverse())
        sql(old, `DROP ${kind} ${made}`);
      for (const [, table, column] of text.matchAll(/^ALTER TABLE (\w+) ADD COLUMN (\w+)/gm))
        sql(old, `ALTER TABLE ${table} DROP COLUMN ${column}`);
    }
    sql(old, 'DELETE FROM schema_migrations WHERE version >= 8 RETURNING 1');
    const file = join(folder, 'backup');
    assert.equal(run(['db', 'backup', file, '--db', old]).code, 0);
    const {code, err} = run(['db', 'restore', file, '--replace', '--db', db]);
    assert.equal(code, 0, err);
    assert.deepEqual(contents(db), before);
    const status = JSON.parse(run(['db', 'status', '--json', '--db', db]).out);
    assert.equal(status.schema.current, status.schema.latest);
    // One that is cut short takes nothing away.
    truncateSync(file, statSync(file).size - 3000);
    if (engine === 'sqlite') renameSync(`${db}.replaced`, `${db}.kept`);
    assert.notEqual(run(['db', 'restore', file, '--replace', '--db', db]).code, 0);
    assert.deepEqual(contents(db), before);
  });
}

test('postgresql: a database of somebody else is left as it is, --replace or not', async (t) => {
  const folder = temporaryFolder(t);
  const [db, foreign] = [await postgres(t), await postgres(t)];
  run(['db', 'migrate', '--db', db]);
  const file = join(folder, 'backup');
  assert.equal(run(['db', 'backup', file, '--db', db]).code, 0);
  sql(foreign, 'CREATE TABLE deliveries AS SELECT 1 AS x');
  for (const more of [[], ['--replace']]) {
    const {code, err} = run(['db', 'restore', file, ...more, '--db', foreign]);
    assert.equal(code, 4, err);
    assert.match(err, /"deliveries" already exists/);
    assert.deepEqual(sql(foreign, 'SELECT x FROM deliveries'), [['1']]);
    assert.deepEqual(sql(foreign, "SELECT to_regclass('jobs') IS NULL"), [['t']]);
  }
});

test('postgresql: a store in use is not replaced, unless by force', async (t) => {
  const db = await postgres(t);
  const {folder, server} = await storeInUse(t, db);
  const file = join(folder, 'backup');
  assert.equal(run(['db', 'backup', file, '--db', db]).code, 0);
  const {code, err} = run(['db', 'restore', file, '--replace', '--db', db]);
  assert.equal(code, 4, err);
  assert.match(err, /is in use, by \d+ connections? of crosscheck/);
  assert.match(err, /--force/);
  assert.equal((await server.json('/ops.json')).outbox.sent.count, 3);
  const forced = run(['db', 'restore', file, '--replace', '--force', '--db', db]);
  assert.equal(forced.code, 0, forced.err);
});

test('sqlite: a second restore does not overwrite what the first one kept', async (t) => {
  const folder = temporaryFolder(t);
  const [db, file] = [join(folder, 'store.db'), join(folder, 'backup')];
  const cli = (...args) => run([...args, '--db', db]);
  cli('db', 'migrate');
  assert.equal(cli('db', 'backup', file).code, 0);
  assert.equal(cli('token', 'create', '--role', 'admin', '--name', 'only-here').code, 0);
  assert.equal(cli('db', 'restore', file, '--replace').code, 0);
  const {code, err} = cli('db', 'restore', file, '--replace');
  assert.equal(code, 3);
  assert.match(err, /replaced: is there from an earlier restore/);
  assert.equal(contents(`${db}.replaced`).access_tokens.length, 1);
  const nowhere = cli('db', 'backup', join(folder, 'missing/backup'));
  assert.equal(nowhere.code, 4);
  assert.match(nowhere.err, /missing\/backup.part: cannot be made/);
});

test(
  'sqlite: root restores a store that the user of the relay can write',
  {skip: process.getuid() !== 0},
  async (t) => {
    const folder = temporaryFolder(t);
    const [db, file] = [join(folder, 'state/store.db'), join(folder, 'backup')];
    run(['db', 'migrate', '--db', db]);
    assert.equal(run(['db', 'backup', file, '--db', db]).code, 0);
    const owner = () => [statSync(db).uid, statSync(db).gid, statSync(db).mode & 0o777];
    chownSync(join(folder, 'state'), 4711, 4712);
    chownSync(db, 4711, 4712);
    chmodSync(db, 0o600);
    assert.equal(run(['db', 'restore', file, '--replace', '--db', db]).code, 0);
    assert.deepEqual(owner(), [4711, 4712, 0o600]);
    rmSync(db);
    assert.equal(run(['db', 'restore', file, '--db', db]).code, 0);
    assert.deepEqual(owner().slice(0, 2), [4711, 4712]);
  },
);

test('sqlite: a store in use is not replaced; what is no backup is refused', async (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'store.db');
  const {server} = await storeInUse(t, db);
  const file = join(folder, 'backup');
  assert.equal(run(['db', 'backup', file, '--db', db]).code, 0);
  const {code, err} = run(['db', 'restore', file, '--replace', '--db', db]);
  assert.equal(code, 4, err);
  assert.match(err, /in use/);
  assert.equal((await server.json('/ops.json')).outbox.sent.count, 3);

  const text = join(folder, 'text');
  writeFileSync(text, 'no database'.repeat(1000));
  const foreign = join(folder, 'foreign.db');
  sql(foreign, 'CREATE TABLE t (x)');
  const short = join(folder, 'short');
  copyFileSync(file, short);
  truncateSync(short, 8 * 4096);
  const odd = join(folder, 'odd');
  copyFileSync(file, odd);
  truncateSync(odd, 4096 + 100);
  for (const wrong of [text, foreign, short, odd, join(folder, 'missing')]) {
    const target = join(folder, 'target.db');
    const done = run(['db', 'restore', wrong, '--db', target]);
    assert.equal(done.code, 3, done.err);
    assert.ok(done.err.includes(wrong), done.err);
    if (existsSync(wrong)) assert.match(done.err, /name a whole file that `crosscheck db backup` made/);
    assert.ok(!existsSync(target));
    assert.ok(!existsSync(`${target}.part`));
  }
});

test('a PostgreSQL password is not on the command line of pg_dump, nor in errors', async (t) => {
  const folder = temporaryFolder(t);
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(
    join(bin, 'pg_dump'),
    `#!/bin/sh\necho "$@" > ${folder}/arguments; echo refused >&2; exit 1\n`,
    {mode: 0o755},
  );
  const db = await postgres(t);
  const url = `${db}${db.includes('?') ? '&' : '?'}password=hush`;
  const {code, err} = run(['db', 'backup', join(folder, 'x'), '--db', url], {
    env: {PATH: `${bin}:${process.env.PATH}`},
  });
  assert.equal(code, 4);
  assert.match(err, /refused/);
  assert.doesNotMatch(err, /hush/);
  assert.doesNotMatch(readFileSync(join(folder, 'arguments'), 'utf8'), /hush/);
  assert.ok(!existsSync(join(folder, 'x')));
});

for (const engine of ['sqlite', 'postgresql']) {
  test(`${engine}: prune removes what is past its retention, and nothing that is still to be sent`, async (t) => {
    const folder = temporaryFolder(t);
    const db = engine === 'sqlite' ? join(folder, 'store.db') : await postgres(t);
    const {folder: served, server} = await storeInUse(t, db);
    await server.stop();
    const now = Date.now() * 1000;
    // The first event is a year and more old, the second two months, the third of today.
    const [first, second] = sql(db, 'SELECT id FROM deliveries ORDER BY id').map(([id]) => id);
    const update = (statement) => sql(db, `${statement} RETURNING 1`);
    update(`UPDATE deliveries SET received_at = ${now - 400 * DAY_US} WHERE id = ${first}`);
    update(`UPDATE deliveries SET received_at = ${now - 60 * DAY_US} WHERE id = ${second}`);
    update(
      "INSERT INTO audit_log (at, actor, origin, action, subject, outcome) VALUES (1, 'a', 'b', 'c', 'd', 'e')",
    );
    update(
      "INSERT INTO result_files (repo_key, digest, size, bytes, received_at) VALUES ('a/b', 'd', 1, 'x', 1)",
    );
    update(
      "INSERT INTO combinations (digest, backend, backend_revision, core_revision, suite_revision, device, environment_digest) VALUES ('c', 'a/b', '1', '1', '1', 'd', 'e')",
    );
    const [[old]] = sql(
      db,
      "INSERT INTO runs (repo_key, run_key, combination, command, selection, environment, started_at) VALUES ('a/b', 'r', 'c', '[]', '', '{}', 1) RETURNING id",
    );
    const [[id]] = sql(
      db,
      "INSERT INTO tests (digest, file, class_name, method, variant) VALUES ('t', 'f', 'c', 'm', '{}') RETURNING id",
    );
    update(
      `INSERT INTO test_results (run, test, attempt, outcome, kind, node_id, duration_us) VALUES (${old}, ${id}, 1, 'passed', '', 'n', 1)`,
    );
    for (const [matrix, at] of [['old', 1], ['new', now]]) {
      update(
        `INSERT INTO upgrades (matrix, name, decision, decided_at, bundle, report, published_at) VALUES ('${matrix}', 'n', 'adopt', ${at}, 'b', '{}', ${now})`,
      );
    }
    const job = (delivery, at) =>
      update(
        `INSERT INTO jobs (delivery_id, event_type, repo_key, repo, level, run_id, run_attempt, job_name, state, first_seen_at, word_workflow, word_body) VALUES ('${delivery}', 'push', 'a/b', 'a/b', 'L2', '1', 1, 'j', 'completed', ${at}, 'w', '{"a":1}')`,
      );
    job('old', now - 60 * DAY_US);
    job('new', now);
    const call = (says, state) =>
      update(
        `INSERT INTO github_calls (kind, delivery, repo_key, repo, subject, says, order_key, payload, state, not_before, created_at) VALUES ('create_check_run', ${first}, 'a/b', 'a/b', 's', '${says}', 'o', '{"status":"x"}', '${state}', ${now + DAY_US}, ${now - 60 * DAY_US})`,
      );
    for (const state of ['sent', 'dead', 'withdrawn', 'pending']) {
      call(state, state);
      update(
        `INSERT INTO forwards (job, delivery_id, repo_key, repo, body, state, not_before, created_at) VALUES ((SELECT MIN(id) FROM jobs), 'old', 'a/b', 'a/b', 'x', '${state}', ${now + DAY_US}, ${now - 60 * DAY_US})`,
      );
    }
    const log = join(served, 'state/jobs/old.log');
    writeFileSync(log, 'an old log');
    utimesSync(log, 1, 1);

    const prune = (...args) => {
      const done = run(['db', 'prune', '--json', '--db', db, ...args], {cwd: served, env: {CROSSCHECK_STATE_DIR: join(served, 'state')}});
      assert.equal(done.code, 0, done.err);
      return JSON.parse(done.out);
    };
    const expected = {
      bodies: 2,
      reports: 1,
      calls: 3,
      forwards: 3,
      log_files: 1,
      result_files: 1,
      test_results: 1,
      upgrades: 1,
      events: 1,
      audit_entries: 1,
      tokens: 0,
    };
    assert.deepEqual(prune('--dry-run'), {dry_run: true, ...expected});
    // What waits keeps its body.
    update(`UPDATE dispatches SET state = 'pending', not_before = ${now + DAY_US} WHERE delivery = ${second}`);
    assert.equal(prune('--dry-run').bodies, 1);
    assert.deepEqual(prune(), {dry_run: false, ...expected, bodies: 1});
    assert.deepEqual(sql(db, "SELECT state FROM github_calls WHERE payload <> '{}'"), [['pending']]);
    assert.deepEqual(sql(db, 'SELECT state FROM forwards'), [['pending']]);
    const replayed = run(['relay', 'replay', '--all-dead', '--json', '--db', db]);
    assert.deepEqual(JSON.parse(replayed.out), {armed: 0, left: 1}, 'its content is gone');
    assert.equal(prune().bodies, 0);
    update(`UPDATE dispatches SET state = 'sent' WHERE delivery = ${second}`);
    assert.equal(prune().bodies, 1);

    const bodies = sql(db, 'SELECT body IS NULL, sender IS NULL, pr_title IS NULL FROM deliveries ORDER BY id');
    const yes = engine === 'sqlite' ? '1' : 't';
    const no = engine === 'sqlite' ? '0' : 'f';
    assert.deepEqual(bodies, [
      [yes, yes, yes],
      [yes, no, no],
      [no, no, no],
    ]);
    assert.deepEqual(sql(db, 'SELECT delivery_id, word_body FROM jobs ORDER BY id').map(([d, b]) => [d, b.length > 2]), [
      ['old', false],
      ['new', true],
    ]);
    assert.equal(sql(db, 'SELECT id FROM runs').length, 1, 'the run itself stays');
    assert.ok(!existsSync(log));
    // Nothing of it is in the pages' way.
    const again = await serve(t, {folder: served, settings: recordingSettings(served), db});
    for (const path of ['/', '/pr/100', '/pr/101', '/ops', '/b/example/recorder'])
      assert.equal((await fetch(new URL(path, again.url))).status, 200, path);
  });
}

test('a relay prunes by itself, under a lease of the store', async (t) => {
  const folder = temporaryFolder(t);
  const db = join(folder, 'store.db');
  const {server} = await storeInUse(t, db);
  await server.stop();
  sql(db, `UPDATE deliveries SET received_at = 1 RETURNING 1`);
  const again = temporaryFolder(t);
  await serve(t, {folder: again, settings: recordingSettings(again), db});
  await eventually('the bodies are gone', () =>
    sql(db, 'SELECT 1 FROM deliveries WHERE body IS NOT NULL').length === 0);
  assert.equal(sql(db, "SELECT 1 FROM leases WHERE name = 'prune'").length, 1);
});

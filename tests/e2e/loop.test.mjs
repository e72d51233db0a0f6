// The whole loop: an event as GitHub sends it, a run of real PyTorch on the reference device, the result on the pages;
// on SQLite and on PostgreSQL.
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {test} from 'node:test';
import {
  endedJob,
  junitCountsOfTheRun,
  postgres,
  pullRequest,
  refdevSettings,
  secret,
  send,
  serve,
  temporaryFolder,
} from './harness.mjs';

const SELECT = '/TestForwardFloat.*test_forward_(mm|add|mul|sub|exp|abs)_refdev_float32/';
const FAULTS = {
  operators: 'all',
  faults: {'aten::mm.out': 'wrong_value', 'aten::exp.out': 'crash'},
};

for (const engine of ['SQLite', 'PostgreSQL']) {
  test(`an event becomes a result on the pages, with ${engine}`, async (t) => {
    const folder = temporaryFolder(t);
    const db = engine === 'PostgreSQL' ? await postgres(t) : join(folder, 'crosscheck.db');
    const {settings, env} = refdevSettings(folder, {select: SELECT, device: FAULTS});
    const server = await serve(t, {folder, settings, env, db});
    const event = pullRequest();
    const {number, head} = event.pull_request;
    const {status, delivery} = await send(server.url, {body: event, secret});
    assert.equal(status, 202);
    const summary = await endedJob(server, number, delivery);
    assert.equal(summary.state, 'failed');
    assert.equal(summary.established.head_sha, head.sha);
    assert.equal(summary.established.backend, 'example/refdev');
    assert.equal(summary.word.conclusion, 'failure');

    const job = await server.json(`${summary.page}.json`);
    const junit = junitCountsOfTheRun(folder);
    const {counts} = job.run;
    assert.equal(counts.total, junit.total);
    assert.equal(counts.failures, junit.failed);
    assert.equal(counts.passed, junit.passed);
    assert.ok(
      counts.passed >= 4 && counts.crashed === 1 && counts.failed === 1,
      JSON.stringify(counts),
    );
    assert.match(job.run.combination.core_revision, /^2\.13\.0/);

    const mismatch = job.tests.find(({kind}) => kind === 'numerical_mismatch');
    assert.equal(mismatch.variant.op, 'mm');
    assert.match(mismatch.message, /not close/i);
    const crashed = job.tests.find(({outcome}) => outcome === 'crashed');
    assert.equal(crashed.variant.op, 'exp');

    const {backends} = await server.json('/index.json');
    assert.equal(backends[0].backend, 'example/refdev');
    assert.equal(backends[0].state, 'failed');
    const {grid} = await server.json('/b/example/refdev.json');
    assert.equal(grid.rows[0].head_sha, head.sha);
    assert.equal(grid.rows[0].cells[0].job, summary.id);

    // The same event again: neither dispatched nor shown twice.
    assert.equal((await send(server.url, {body: event, secret, delivery})).status, 200);
    assert.deepEqual(await server.stop(), {code: 0, signal: null});
  });
}

test('health, readiness and metrics', async (t) => {
  const folder = temporaryFolder(t);
  const {settings, env} = refdevSettings(folder, {select: SELECT});
  const server = await serve(t, {folder, settings, env});
  for (const path of ['/healthz', '/readyz', '/metrics']) {
    assert.equal((await fetch(new URL(path, server.url))).status, 200, path);
  }
});

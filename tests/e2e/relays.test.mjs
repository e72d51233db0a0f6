// Several relays on one PostgreSQL: each event leaves once, whoever took it; one may die, and the database may restart.
import assert from 'node:assert/strict';
import {randomUUID} from 'node:crypto';
import {test} from 'node:test';
import {GitHubDouble} from '../contract/github.mjs';
import {Issuer, callback, report} from '../contract/issuer.mjs';
import {
  eventually,
  githubSettings,
  postgresServer,
  pullRequest,
  secret,
  send,
  serve,
  temporaryFolder,
} from './harness.mjs';

const REPOSITORIES = ['org-a/backend', 'org-b/backend'];
const EVENTS = 60;
const SENDERS = 6;

async function setUp(t) {
  const github = await new GitHubDouble({repositories: REPOSITORIES}).start();
  t.after(() => github.stop());
  const issuer = await new Issuer().start();
  t.after(() => issuer.stop());
  const database = await postgresServer(t);
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {
    github,
    repositories: REPOSITORIES,
    more: `${issuer.settings}rate_limit_per_min: 1000000\n`,
  });
  const relay = () => serve(t, {folder, settings, env, local: false, db: database.url});
  const copies = (repository, delivery) =>
    github.accepted(repository).filter((d) => d.client_payload.delivery_id === delivery).length;
  return {github, issuer, database, relay, copies};
}

// Calls `attempt` until it is answered with one of `statuses`; no answer promises nothing.
async function insist(attempt, statuses) {
  for (;;) {
    try {
      const {status} = await attempt();
      if (statuses.includes(status)) return status;
      assert.equal(status, 503);
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
    }
    await new Promise((wake) => setTimeout(wake, 20));
  }
}

// An event, then both reports of each repository's job, each to the relay whose turn it is.
async function play({issuer, urls, deliveries, copies}) {
  let turn = 0;
  const url = () => urls[turn++ % urls.length]();
  const waiting = [...deliveries];
  const sender = async () => {
    for (let delivery = waiting.pop(); delivery !== undefined; delivery = waiting.pop()) {
      const body = pullRequest();
      await insist(() => send(url(), {body, secret, delivery}), [200, 202]);
      for (const repository of REPOSITORIES) {
        await eventually(`${delivery} reaches ${repository}`, () => copies(repository, delivery) > 0);
        for (const status of ['in_progress', 'completed']) {
          const conclusion = status === 'completed' ? 'success' : null;
          const told = report(delivery, {status, conclusion});
          await insist(() => callback(url(), issuer.token(repository), told), [200]);
        }
      }
    }
  };
  await Promise.all(Array.from({length: SENDERS}, sender));
}

async function everythingIsOnThePages(server, deliveries) {
  const page = await server.json('/pr/2.json');
  const jobs = page.commits.flatMap(({backends}) =>
    backends.flatMap((backend) => backend.jobs.flatMap((job) => [job, ...job.earlier])),
  );
  assert.equal(jobs.length, deliveries.length * REPOSITORIES.length);
  assert.deepEqual([...new Set(jobs.map(({state}) => state))], ['passed']);
}

const names = (n) => Array.from({length: n}, () => randomUUID());

test('two relays: each event is dispatched once, each report counts once', async (t) => {
  const {github, issuer, relay, copies} = await setUp(t);
  const [a, b] = [await relay(), await relay()];
  const deliveries = names(EVENTS);
  await play({issuer, urls: [() => a.url, () => b.url], deliveries, copies});
  for (const delivery of deliveries)
    for (const repository of REPOSITORIES) assert.equal(copies(repository, delivery), 1);
  for (const server of [a, b]) await everythingIsOnThePages(server, deliveries);
  // Both took a part of the work.
  for (const server of [a, b]) assert.match(server.log, /dispatch .*state=sent/);
  // The same delivery to both at once is one event.
  const [delivery] = names(1);
  const answers = await Promise.all(
    [a, b, a, b].map(({url}) => send(url, {body: pullRequest(), secret, delivery})),
  );
  assert.deepEqual(answers.map(({status}) => status).sort(), [200, 200, 200, 202]);
  await eventually('it is dispatched', () => copies(REPOSITORIES[0], delivery) > 0);
  for (const server of [a, b]) assert.deepEqual(await server.stop(), {code: 0, signal: null});
  assert.equal(copies(REPOSITORIES[0], delivery), 1);
  assert.deepEqual(github.violations, []);
});

test('one of two relays is killed: the other sends what it had claimed', async (t) => {
  const {github, issuer, relay, copies} = await setUp(t);
  const [a, b] = [await relay(), await relay()];
  const deliveries = names(EVENTS);
  let url = () => a.url;
  const playing = play({
    issuer,
    urls: [() => url(), () => b.url],
    deliveries,
    copies,
  });
  await eventually('it is under way', () => github.accepted(REPOSITORIES[0]).length > 10);
  await a.kill();
  url = () => b.url;
  await playing;
  for (const delivery of deliveries)
    for (const repository of REPOSITORIES)
      assert.ok([1, 2].includes(copies(repository, delivery)), 'once, or again when in doubt');
  await everythingIsOnThePages(b, deliveries);
  assert.deepEqual(github.violations, []);
});

test('PostgreSQL restarts under load: nothing is lost or shown twice', async (t) => {
  const {github, issuer, database, relay, copies} = await setUp(t);
  const [a, b] = [await relay(), await relay()];
  const deliveries = names(EVENTS);
  const playing = play({issuer, urls: [() => a.url, () => b.url], deliveries, copies});
  for (const share of [0.2, 0.5, 0.8]) {
    await eventually(
      'it goes on',
      () => github.accepted(REPOSITORIES[0]).length > share * EVENTS,
      120,
    );
    await database.restart();
  }
  await playing;
  for (const delivery of deliveries)
    for (const repository of REPOSITORIES) assert.equal(copies(repository, delivery), 1);
  await everythingIsOnThePages(b, deliveries);
  await eventually('both are ready again', async () => {
    const answers = await Promise.all([a, b].map(({url}) => fetch(new URL('/readyz', url))));
    return answers.every(({status}) => status === 200);
  });
  assert.deepEqual(github.violations, []);
});

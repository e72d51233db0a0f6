// One stream of events and callbacks, and kill -9 at arbitrary points of it: what was accepted is neither lost nor shown
// twice, and every dispatch leaves.
import assert from 'node:assert/strict';
import {randomInt, randomUUID} from 'node:crypto';
import {test} from 'node:test';
import {GitHubDouble} from '../contract/github.mjs';
import {Issuer, callback, report} from '../contract/issuer.mjs';
import {
  eventually,
  githubSettings,
  long,
  pullRequest,
  secret,
  send,
  serve,
  temporaryFolder,
} from './harness.mjs';

const REPOSITORIES = ['org-a/backend', 'org-b/backend'];
const EVENTS = 400; // with two callbacks from each repository for each: 2,000 requests
const REQUESTS = EVENTS * (1 + 2 * REPOSITORIES.length);
const KILLS = long ? 50 : 5;
const SENDERS = 8;

test(`killed ${KILLS} times in a stream of ${REQUESTS} events and callbacks`, {timeout: 1_200_000}, async (t) => {
  const github = await new GitHubDouble({repositories: REPOSITORIES}).start();
  t.after(() => github.stop());
  const issuer = await new Issuer().start();
  t.after(() => issuer.stop());
  const folder = temporaryFolder(t);
  const {settings, env} = githubSettings(folder, {
    github,
    repositories: REPOSITORIES,
    more: `${issuer.settings}rate_limit_per_min: 1000000\n`,
  });
  let server = await serve(t, {folder, settings, env, local: false});

  // The kills are spread over the stream: each when so many requests were answered.
  const at = Array.from({length: KILLS}, () => randomInt(1, REQUESTS)).sort((a, b) => a - b);
  t.diagnostic(`killed after ${at.join(', ')} answers`);
  let answered = 0;
  let restart = Promise.resolve();
  let kills = 0;
  const count = () => {
    answered += 1;
    while (kills < at.length && answered >= at[kills]) {
      kills += 1;
      restart = restart.then(async () => {
        await server.kill();
        server = await serve(t, {folder, settings, env, local: false});
      });
    }
  };
  // Sends until it is answered: who got no answer was promised nothing, and tries again.
  const insist = async (what, attempt) => {
    for (;;) {
      await restart;
      try {
        const answer = await attempt(server.url);
        count();
        return answer;
      } catch (error) {
        if (!(error instanceof TypeError)) throw error; // what fetch throws when a connection breaks
      }
    }
  };
  const inParallel = async (items, work) => {
    const left = [...items];
    await Promise.all(
      Array.from({length: SENDERS}, async () => {
        while (left.length > 0) await work(left.shift());
      }),
    );
  };

  const reached = (repository, delivery) =>
    github.accepted(repository).some((d) => d.client_payload.delivery_id === delivery);
  const events = Array.from({length: EVENTS}, (_, n) => ({delivery: randomUUID(), pr: n + 1}));

  await inParallel(events, async ({delivery, pr}) => {
    const body = pullRequest({
      change: (payload) => {
        payload.number = payload.pull_request.number = pr;
        payload.pull_request.head.sha = String(pr).padStart(40, '0');
      },
    });
    const sent = await insist('webhook', (url) => send(url, {body, secret, delivery}));
    // 200: it was durable, but its answer was lost with the process.
    assert.ok([200, 202].includes(sent.status), `${sent.status} ${JSON.stringify(sent.answer)}`);
    for (const repository of REPOSITORIES) {
      await eventually(`${delivery} reaches ${repository}`, () => reached(repository, delivery), 120);
      const token = issuer.token(repository, {run_id: String(pr), run_attempt: '1'});
      for (const status of ['in_progress', 'completed']) {
        const {status: code, answer} = await insist('callback', (url) =>
          callback(url, token, report(delivery, {status, run_id: pr})),
        );
        assert.equal(code, 200, JSON.stringify(answer));
        assert.equal(answer.status, status);
      }
    }
  });
  await restart;
  assert.equal(kills, KILLS);

  await t.test('every dispatch was sent', () => {
    for (const repository of REPOSITORIES) {
      const known = new Set(events.map(({delivery}) => delivery));
      const arrived = github.accepted(repository).map((d) => d.client_payload.delivery_id);
      assert.deepEqual(new Set(arrived), known);
      // At least once; again only what was under way in a process that was killed.
      assert.ok(arrived.length - known.size <= KILLS * 32, `${arrived.length - known.size} twice`);
    }
  });

  await t.test('every result is on the pages once', async () => {
    await inParallel(events, async ({delivery, pr}) => {
      const page = await server.json(`/pr/${pr}.json`);
      const jobs = page.commits.flatMap((change) => change.backends.flatMap((b) => b.jobs));
      assert.deepEqual(
        jobs.map((job) => [job.established.backend, job.established.delivery_id, job.state]).sort(),
        REPOSITORIES.map((repository) => [repository, delivery, 'passed']),
      );
      assert.ok(jobs.every((job) => job.attempts === 1));
    });
  });
  assert.deepEqual(github.violations, []);
  assert.deepEqual(await server.stop(), {code: 0, signal: null});
});

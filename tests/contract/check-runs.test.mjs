// Check runs on pull requests and re-runs, as GitHub sees them: the lines of the relay's scenarios about labels, check runs
// and "Re-run", against the double, which holds each request to GitHub's own description.
import assert from 'node:assert/strict';
import {join} from 'node:path';
import {test} from 'node:test';
import {
  eventually,
  githubSettings,
  ofRepository,
  payloads,
  pullRequest,
  run,
  secret,
  send,
  serve,
  temporaryFolder,
  upstream,
  write,
} from '../e2e/harness.mjs';
import {GitHubDouble} from './github.mjs';
import {Issuer, callback, report} from './issuer.mjs';

const ALLOWLIST = `L1: [org/one]
L2: [org/two]
L3:
  npu:
    org/three: [oncall]
L4: [org/four]
`;
const BACKENDS = ['org/one', 'org/two', 'org/three', 'org/four'];
const LABEL = 'ciflow/crcr/npu';

const withLabels = (labels, change = () => {}) => (payload) => {
  payload.pull_request.labels = labels.map((name, id) => ({
    id,
    node_id: 'x',
    url: 'https://api.github.com/x',
    name,
    color: 'fff',
    default: false,
  }));
  change(payload);
};

async function setUp(t, {settle = 1} = {}) {
  const github = await new GitHubDouble({repositories: [...BACKENDS, upstream]}).start();
  t.after(() => github.stop());
  const issuer = await new Issuer().start();
  t.after(() => issuer.stop());
  const folder = temporaryFolder(t);
  const more = `${issuer.settings}check_settle_seconds: ${settle}\n`;
  const {settings, env} = githubSettings(folder, {github, repositories: BACKENDS, more});
  write(folder, 'allowlist.yaml', ALLOWLIST);
  const start = () => serve(t, {folder, settings, env, local: false});
  const server = await start();

  const event = async (change, action = 'opened') => {
    const sent = await send(server.url, {body: pullRequest({action, change}), secret});
    assert.equal(sent.status, 202, JSON.stringify(sent.answer));
    for (const repository of BACKENDS)
      await eventually(`dispatched to ${repository}`, () =>
        github
          .accepted(repository)
          .some((dispatch) => dispatch.client_payload.delivery_id === sent.delivery),
      );
    return sent.delivery;
  };
  const label = async (name, labels, {action = 'labeled', delivery} = {}) => {
    const body = pullRequest({change: withLabels(labels)});
    body.action = action;
    body.label = {id: 1, name};
    return send(server.url, {body, secret, delivery});
  };
  const calls = async (repository, delivery, workflow, payload = {}) => {
    const body = {...report(delivery, workflow), payload};
    const answer = await callback(server.url, issuer.token(repository), body);
    assert.equal(answer.status, 200, JSON.stringify(answer.answer));
  };
  // The check runs of jobs, shortly: name, status or conclusion.
  const shown = () =>
    github
      .checkRuns(upstream)
      .filter(({name}) => name.split('/').length > 3)
      .map(({name, status, conclusion}) => `${name}: ${conclusion ?? status}`);
  const shows = (...expected) =>
    eventually(`GitHub has ${expected.join(', ')}`, () => {
      assert.deepEqual(shown(), expected);
      return true;
    });
  const stable = () =>
    github
      .checkRuns(upstream)
      .filter(({name}) => name.split('/').length === 3)
      .map(({conclusion, status}) => conclusion ?? status);
  return {github, server, folder, start, event, label, calls, shown, shows, stable};
}

test('an L4 job is shown as it begins and as it ends, the backend in one stable check', async (t) => {
  const {github, event, calls, shows, stable} = await setUp(t);
  const delivery = await event();
  const job = {run_id: '77', name: 'CI', job_name: 'linux / test: cuda'};
  await calls('org/four', delivery, job);
  await shows('crcr/org/four/CI/linux / test: cuda: in_progress');
  await calls('org/four', delivery, {...job, status: 'completed', conclusion: 'success'});
  await shows(
    'crcr/org/four/CI/linux / test: cuda: in_progress',
    'crcr/org/four/CI/linux / test: cuda: success',
  );
  const {pull_request} = pullRequest();
  const [first, last] = github.checkRuns(upstream).filter(({name}) => name.includes('/CI/'));
  assert.equal(first.output.title, 'In progress');
  assert.equal(last.output.title, 'Success');
  assert.equal(last.external_id, `77:${pull_request.number}`);
  assert.equal(last.details_url, 'https://github.com/org/four/actions/runs/77');
  assert.equal(last.head_sha, pull_request.head.sha);
  assert.match(last.output.summary, /org\/four/);
  assert.match(last.output.summary, /https:\/\/github\.com\/org\/four\/actions\/runs\/77/);
  await eventually('the stable check is concluded', () => stable().at(-1) === 'success');
  assert.deepEqual(stable(), ['queued', 'success']);
  assert.deepEqual(github.violations, []);
});

test('the label may come before the dispatch, while a job runs, or after it ended', async (t) => {
  const {github, event, label, calls, shows, shown} = await setUp(t);
  const one = await event(withLabels([]));
  await calls('org/three', one, {run_id: '1', job_name: 'runs'});
  await calls('org/three', one, {run_id: '1', job_name: 'ended'});
  await calls('org/three', one, {
    run_id: '1',
    job_name: 'ended',
    status: 'completed',
    conclusion: 'failure',
  });
  await calls('org/two', one, {run_id: '2'});
  assert.deepEqual(shown(), []);
  const labelled = await label(LABEL, [LABEL]);
  assert.equal(labelled.status, 202);
  assert.deepEqual(labelled.answer.created_check_runs, ['org/three/runs', 'org/three/ended']);
  const expected = ['crcr/org/three/CI/runs: in_progress', 'crcr/org/three/CI/ended: failure'];
  await eventually('both are shown', () => {
    assert.deepEqual(shown().sort(), [...expected].sort());
    return true;
  });
  // The same label again, by another event and by the same one: nothing is made again.
  assert.deepEqual((await label(LABEL, [LABEL])).answer.created_check_runs, []);
  const again = await label(LABEL, [LABEL], {delivery: labelled.delivery});
  assert.equal(again.answer.duplicate, true);
  // Before the dispatch: on reopening no `labeled` event comes.
  const two = await event(
    withLabels([LABEL], (payload) => {
      payload.pull_request.head.sha = 'b'.repeat(40);
    }),
    'reopened',
  );
  await calls('org/three', two, {run_id: '3', job_name: 'x'});
  await eventually('the third', () => shown().includes('crcr/org/three/CI/x: in_progress'));
  assert.equal(shown().length, 3);
  assert.deepEqual(github.violations, []);
});

test('neither an invented label, nor another one, nor one taken off shows anything', async (t) => {
  const {github, server, event, label, calls, shown, shows} = await setUp(t);
  const delivery = await event(withLabels([]));
  const echo = pullRequest({change: withLabels([LABEL])});
  await calls('org/three', delivery, {run_id: '1', job_name: 'invented'}, echo);
  for (const other of ['ciflow/crcr/xpu', 'ciflow/crcr/', 'ciflow/crcr/NPU']) {
    const answer = await label(other, [other]);
    assert.deepEqual(answer.answer.created_check_runs, [], other);
  }
  const ignored = await label('ciflow/trunk', ['ciflow/trunk']);
  assert.equal(ignored.status, 200);
  assert.equal(ignored.answer.ignored, true);
  assert.equal((await label(LABEL, [LABEL])).status, 202);
  await shows('crcr/org/three/CI/invented: in_progress');
  assert.equal((await label(LABEL, [], {action: 'unlabeled'})).status, 202);
  await calls('org/three', delivery, {run_id: '1', job_name: 'after'});
  // What comes later has been decided on, so what came before it has been.
  await calls('org/four', delivery, {run_id: '9', job_name: 'fence'});
  await eventually('the fence', () => shown().includes('crcr/org/four/CI/fence: in_progress'));
  assert.ok(!shown().some((line) => line.includes('/after')));
  const without = pullRequest();
  delete without.pull_request;
  const missing = await send(server.url, {
    body: {...without, action: 'labeled', label: {name: LABEL}},
    secret,
  });
  assert.equal(missing.status, 200);
  assert.match(missing.answer.reason, /missing pr context/);
  assert.deepEqual(github.violations, []);
});

test('a conclusion that GitHub does not know is neutral, with the original', async (t) => {
  const {github, event, calls, shows} = await setUp(t, {settle: 3600});
  const delivery = await event();
  await calls('org/four', delivery, {run_id: '1', status: 'completed', conclusion: 'splendid'});
  await shows('crcr/org/four/CI/test: neutral');
  assert.match(github.checkRuns(upstream).at(-1).output.summary, /`splendid`/);
  assert.deepEqual(github.violations, []);
});

test('check runs that GitHub refuses, answers late or not at all hold up no callback', async (t) => {
  const {github, server, folder, event, calls, shown} = await setUp(t, {settle: 3600});
  const delivery = await event();
  await eventually('the stable check is there', () => github.checkRuns(upstream).length === 1);
  const refusal = {status: 403, message: 'Resource not accessible by integration'};
  github.script(upstream, ['hang', {status: 502, accepts: true}, refusal]);
  for (const name of ['hangs', 'twice', 'refused', 'good'])
    await calls('org/four', delivery, {run_id: '1', job_name: name});
  await eventually('the good one', () => shown().includes('crcr/org/four/CI/good: in_progress'));
  const [dead] = await eventually('the refused one is on /ops', async () => {
    const {dead_letters: letters} = await server.json('/ops.json');
    return letters.length === 1 && letters;
  });
  assert.equal(dead.says, 'create_check_run in_progress');
  assert.equal(dead.repo, 'org/four');
  assert.match(dead.reason, /403: Resource not accessible/);
  const db = ['--db', join(folder, 'crosscheck.db')];
  const replayed = run(['relay', 'replay', '--json', '--call', String(dead.call), ...db]);
  assert.deepEqual(JSON.parse(replayed.out), {armed: 1, left: 0}, replayed.err);
  await eventually('all are shown after all', () =>
    ['hangs', 'twice', 'refused', 'good'].every((name) =>
      shown().includes(`crcr/org/four/CI/${name}: in_progress`),
    ),
  );
  assert.equal(run(['relay', 'replay', '--call', String(dead.call), ...db]).code, 3);
  assert.match(run(['relay', 'replay', '--call', '999', ...db]).err, /no call 999/);
  assert.deepEqual(github.violations, []);
});

async function rerequest(server, event, change) {
  const example = payloads(event).find(({action}) => action === 'rerequested');
  const body = ofRepository(example, upstream);
  change(body[event]);
  return send(server.url, {event, body, secret});
}

test('a check run that is asked for again starts its run again', async (t) => {
  const {github, server} = await setUp(t);
  github.repositories.get('org/four').running.add('88');
  const ask = (name, external_id) =>
    rerequest(server, 'check_run', (run) => Object.assign(run, {name, external_id}));
  for (const [name, external_id, status, matches] of [
    ['crcr/org/three/CI/a / b', '77:42', 202, /org\/three/],
    ['crcr/ORG/Three/CI', '78', 202, /org\/three/],
    ['crcr/org/four/CI/test', '88:42', 202, /org\/four/], // already running: no failure
    ['crcr/org/two/CI/test', '79:42', 200, /not L3\+/],
    ['crcr/org/nobody/CI/test', '79:42', 200, /not L3\+/],
    ['lint', '79:42', 200, /not a crcr check run/],
    ['crcr/org/three', '79:42', 200, /not a crcr check run/],
    ['crcr//three/CI/test', '79:42', 200, /not a crcr check run/],
    ['crcr/org/three/CI/test', '', 200, /not a crcr check run/],
    ['crcr/org/three/CI/test', null, 200, /not a crcr check run/],
    ['crcr/org/three/CI/test', '0190f7c2-8f3a:42', 200, /Buildkite/],
  ]) {
    const {status: got, answer} = await ask(name, external_id);
    assert.equal(got, status, `${name} ${external_id}: ${JSON.stringify(answer)}`);
    assert.match(JSON.stringify(answer), matches);
  }
  await eventually('the runs are started again', () => github.reruns('org/three').length === 2);
  assert.deepEqual(
    github.reruns('org/three').sort((a, b) => a.run - b.run),
    [
      {run: '77', failedOnly: true},
      {run: '78', failedOnly: true},
    ],
  );
  await eventually('GitHub was asked for the one that runs', () =>
    github.requests.some(({path, status}) => path.includes('/88/') && status === 403),
  );
  const dead = github.requests.filter(({path}) => path.includes('/88/')).length;
  assert.equal(dead, 1, 'and not again');
  assert.deepEqual(github.violations, []);
});

test('a suite that is asked for again starts each of its runs once, whatever fails', async (t) => {
  const {github, server} = await setUp(t);
  const suite = [];
  for (let n = 0; n < 250; n += 1) {
    const repository = n % 2 ? 'org/four' : 'org/three';
    suite.push({
      name: `crcr/${repository}/CI/job ${n}`,
      external_id: `${1000 + Math.floor(n / 6)}:7`,
    });
  }
  suite.push({name: 'crcr/org/two/CI/a', external_id: '5:7'}, {name: 'lint', external_id: '6:7'});
  suite.push({name: 'crcr/org/four/CI/b', external_id: ''});
  github.suites.set(118578147, suite);
  github.script('org/three', [{status: 403, message: 'Resource not accessible by integration'}]);
  const asked = await rerequest(server, 'check_suite', (one) => (one.id = 118578147));
  assert.equal(asked.status, 202, JSON.stringify(asked.answer));
  const again = (repository) => github.reruns(repository).map(({run}) => run);
  await eventually('all but the refused one', () => {
    assert.equal(again('org/four').length, 42);
    assert.equal(again('org/three').length, 41);
    return true;
  });
  assert.equal(new Set(again('org/four')).size, 42);
  assert.ok(github.reruns('org/four').every(({failedOnly}) => !failedOnly));
  assert.deepEqual(github.reruns('org/two'), []);
  assert.equal(github.count('GET', /\/check-suites\/118578147\/check-runs$/), 3);
  const none = await rerequest(server, 'check_suite', (one) => delete one.id);
  assert.equal(none.status, 200);
  assert.match(none.answer.reason, /no check suite/);
  assert.deepEqual(github.violations, []);
});

test('killed before its check run left, the relay sends it after the restart', async (t) => {
  const {github, server, start, event, calls} = await setUp(t, {settle: 3600});
  const delivery = await event();
  await eventually('the stable check is there', () => github.checkRuns(upstream).length === 1);
  github.script(upstream, ['hang']);
  await calls('org/four', delivery, {run_id: '1', job_name: 'x'});
  await eventually('it is on its way', () => github.hanging.size === 1);
  await server.kill();
  await start();
  await eventually('it is shown', () =>
    github.checkRuns(upstream).some(({name}) => name === 'crcr/org/four/CI/x'),
  );
  assert.deepEqual(github.violations, []);
});

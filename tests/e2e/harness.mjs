// What the end-to-end tests share: the real binary, in a folder and on a port of its own, ended with the test.
import assert from 'node:assert/strict';
import {spawn, spawnSync} from 'node:child_process';
import {once} from 'node:events';
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {createInterface} from 'node:readline';
import {fileURLToPath} from 'node:url';

export {eventNames, ofRepository, payloads, pullRequest, send} from '../../scripts/send-event.mjs';

export const root = resolve(fileURLToPath(import.meta.url), '../../..');
export const crosscheck = process.env.CROSSCHECK_BIN ?? join(root, 'build/release/bin/crosscheck');
export const python = process.env.CROSSCHECK_PYTHON ?? join(root, '.venv/bin/python');
export const long = process.env.CROSSCHECK_LONG === '1';
export const secret = 'a webhook secret of the tests';
export const upstream = 'pytorch/pytorch';

assert.ok(existsSync(crosscheck), `${crosscheck} does not exist: run scripts/build`);

export function temporaryFolder(t) {
  const folder = mkdtempSync(join(tmpdir(), 'crosscheck-e2e-'));
  t.after(() => rmSync(folder, {recursive: true, force: true}));
  return folder;
}

export function write(folder, name, text, mode = 0o644) {
  const path = join(folder, name);
  writeFileSync(path, text, {mode});
  return path;
}

// Calls `probe` until it returns something, at most `seconds`: what it last threw or returned is the error.
export async function eventually(what, probe, seconds = 60) {
  const deadline = Date.now() + seconds * 1000;
  let last;
  do {
    try {
      const value = await probe();
      if (value) return value;
      last = `it is ${JSON.stringify(value)}`;
    } catch (error) {
      last = error.message;
    }
    await new Promise((wake) => setTimeout(wake, 50));
  } while (Date.now() < deadline);
  throw new Error(`${what}: not within ${seconds} s; ${last}`);
}

// Whether the process has ended; a zombie that nobody waits for has.
export function isGone(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');
  } catch {
    return true;
  }
}

// The environment of a test's process: nothing of the caller's CI, proxies or crosscheck settings.
function environment(extra) {
  const kept = Object.entries(process.env).filter(
    ([name]) =>
      !/^(GITHUB_|ACTIONS_|CROSSCHECK_|UPSTREAM_|ALLOWLIST_|NODE_TEST_CONTEXT$|https?_proxy$)/i.test(
        name,
      ),
  );
  return {...Object.fromEntries(kept), ...extra};
}

// Runs the program to its end. `stdout`: a path that its output goes to.
export function run(args, {env = {}, cwd = root, stdout, timeout = 600_000} = {}) {
  const fd = stdout === undefined ? undefined : openSync(stdout, 'w');
  const done = spawnSync(crosscheck, args, {
    cwd,
    env: environment(env),
    stdio: ['ignore', fd ?? 'pipe', 'pipe'],
    timeout,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  });
  if (fd !== undefined) closeSync(fd);
  return {code: done.status, signal: done.signal, out: done.stdout ?? '', err: done.stderr};
}

// The same beside what this process itself answers.
export async function runAsync(args, {env = {}} = {}) {
  const child = spawn(crosscheck, args, {cwd: root, env: environment(env), stdio: ['ignore', 'pipe', 'pipe']});
  const said = {out: '', err: ''};
  child.stdout.setEncoding('utf8').on('data', (text) => (said.out += text));
  child.stderr.setEncoding('utf8').on('data', (text) => (said.err += text));
  const [code, signal] = await once(child, 'close');
  return {code, signal, ...said};
}

class Server {
  constructor(child, t) {
    this.child = child;
    this.log = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (this.log += text));
    this.ended = once(child, 'exit').then(([code, signal]) => ({code, signal}));
    t.after(() => this.kill());
  }

  async ready() {
    const lines = createInterface({input: this.child.stdout});
    const first = await Promise.race([
      once(lines, 'line').then(([line]) => line),
      this.ended.then(({code, signal}) => {
        throw new Error(`the server ended (${code ?? signal}) before it was ready:\n${this.log}`);
      }),
    ]);
    this.url = JSON.parse(first).url;
    return this;
  }

  async json(path, options) {
    const response = await fetch(new URL(path, this.url), options);
    assert.equal(response.status, 200, `${path}: ${response.status}`);
    return response.json();
  }

  // As a crash: nothing is flushed, nobody is told.
  async kill() {
    if (this.child.exitCode === null && this.child.signalCode === null) {
      this.child.kill('SIGKILL');
      await this.ended;
    }
  }

  async stop(signal = 'SIGTERM') {
    this.child.kill(signal);
    return this.ended;
  }
}

// A server in local mode. `settings` is the text of its settings file. Returns once it listens.
export async function serve(t, {folder, settings, args = [], env = {}, db, local = true}) {
  const file = write(folder, 'settings.yaml', settings);
  const child = spawn(
    crosscheck,
    [
      'serve',
      ...(local ? ['--local'] : []),
      '--json',
      '--listen',
      '127.0.0.1:0',
      '--db',
      db ?? join(folder, 'crosscheck.db'),
      '--settings',
      file,
      ...args,
    ],
    {cwd: folder, env: environment(env), stdio: ['ignore', 'pipe', 'pipe']},
  );
  return new Server(child, t).ready();
}

// Settings of a server whose one backend writes each delivery id that it is sent to a file: see `dispatched`.
// `gate`: a file that the backend waits for before it does.
export function recordingSettings(folder, {gate, concurrency = 4, more = ''} = {}) {
  const allowlist = write(folder, 'allowlist.yaml', 'L2:\n  - example/recorder\n');
  const command = write(
    folder,
    'record.sh',
    `#!/bin/sh
${gate === undefined ? '' : `while [ ! -e '${gate}' ] && [ -d '${folder}' ]; do sleep 0.02; done`}
sed 's/.*"delivery_id":"\\([^"]*\\)".*/\\1/' "$GITHUB_EVENT_PATH" >> '${join(folder, 'dispatched')}'
`,
    0o755,
  );
  return `upstream_repo: ${upstream}
webhook_secret: ${secret}
state_dir: ${join(folder, 'state')}
allowlist: ${allowlist}
local_job_concurrency: ${concurrency}
local_commands:
  example/recorder: ${command}
${more}`;
}

// The delivery ids that the recording backend was sent, in order; one sent twice stands twice.
export function dispatched(folder) {
  const file = join(folder, 'dispatched');
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : [];
}

// Settings of a server whose one backend runs tests on the reference device, as the demo's does. `select`: which.
export function refdevSettings(folder, {select, device = {operators: 'all'}}) {
  const allowlist = write(folder, 'allowlist.yaml', 'L2:\n  - example/refdev\n');
  return {
    settings: `upstream_repo: ${upstream}
webhook_secret: ${secret}
state_dir: ${join(folder, 'state')}
allowlist: ${allowlist}
local_commands:
  example/refdev: ${join(root, 'examples/local/ci.sh')} --select '${select}'
`,
    env: {
      CROSSCHECK_BIN: crosscheck,
      CROSSCHECK_PYTHON: python,
      DEMO_RESULTS: join(folder, 'results'),
      REFDEV_CONFIG: write(folder, 'refdev.json', JSON.stringify(device)),
    },
  };
}

// The job that `delivery` started, from the pull request's JSON, once it has ended.
export function endedJob(server, pullRequestNumber, delivery, seconds = 300) {
  return eventually(
    `the job of ${delivery} has ended`,
    async () => {
      const {commits} = await server.json(`/pr/${pullRequestNumber}.json`);
      const jobs = commits.flatMap(({backends}) => backends.flatMap((backend) => backend.jobs));
      const job = jobs.find(({established}) => established.delivery_id === delivery);
      return job?.established.completed_at && job;
    },
    seconds,
  );
}

// Settings of a server that dispatches to `github`, a double.
export function githubSettings(folder, {github, repositories, more = ''}) {
  const allowlist = write(
    folder,
    'allowlist.yaml',
    `L2:\n${repositories.map((repository) => `  - ${repository}\n`).join('')}`,
  );
  const key = write(folder, 'app.pem', github.privateKeyPem, 0o600);
  return {
    settings: `upstream_repo: ${upstream}
state_dir: ${join(folder, 'state')}
allowlist: ${allowlist}
github_api_url: ${github.url}
github_app_id: "${github.appId}"
github_app_private_key_file: ${key}
${more}`,
    env: {GITHUB_APP_SECRET: secret},
  };
}

// A PostgreSQL of its own. Returns its URL.
export async function postgres(t) {
  return (await postgresServer(t)).url;
}

// The same, as {url, restart}.
export async function postgresServer(t) {
  const child = spawn(join(root, 'scripts/postgres-temp'), [], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit');
  t.after(async () => {
    child.stdin.end();
    await ended;
  });
  const lines = createInterface({input: child.stdout})[Symbol.asyncIterator]();
  const url = (await lines.next()).value;
  const restart = async () => {
    child.stdin.write('restart\n');
    assert.equal((await lines.next()).value, 'done');
  };
  return {url, restart};
}

// Counts of the JUnit file of the one run in a server's folder.
export function junitCountsOfTheRun(folder) {
  const [run, ...others] = readdirSync(join(folder, 'results'));
  assert.deepEqual(others, [], 'one run');
  return junitCounts(join(folder, 'results', run, 'junit.xml'));
}

// What `crosscheck collect` writes. `environment`: what differs from the usual one; `tests`: what differs from a test
// without variants and markers.
export function inventoryText({suite = {name: 'tree', root: '/suite'}, device, environment, tests}) {
  const lines = [
    {
      schema: 1,
      suite,
      device,
      environment: {
        ev: 'environment',
        schema: 1,
        probe: '0.1.0',
        python: '3.11.7',
        torch: '2.13.0',
        torch_git: 'abc',
        pytest: '9.2.0',
        device: {type: device, count: 1, name: device},
        suite: 'revision',
        facts: {machine: 'x86_64'},
        ...environment,
      },
    },
    ...tests.map((test) => ({ev: 'test', variant: {}, line: 1, markers: [], quick: false, ...test})),
  ];
  return [...lines, {end: tests.length}].map((line) => `${JSON.stringify(line)}\n`).join('');
}

// Counts of a JUnit file, from its test cases.
export function junitCounts(file) {
  const counts = {passed: 0, failed: 0, skipped: 0, total: 0};
  for (const [, selfClosed, body] of readFileSync(file, 'utf8').matchAll(
    /<testcase\b[^>]*?(?:(\/)>|>([\s\S]*?)<\/testcase>)/g,
  )) {
    counts.total += 1;
    if (selfClosed) counts.passed += 1;
    else if (/<(failure|error)\b/.test(body)) counts.failed += 1;
    else if (/<skipped\b/.test(body)) counts.skipped += 1;
    else counts.passed += 1;
  }
  return counts;
}

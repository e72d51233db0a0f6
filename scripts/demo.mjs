// Starts `crosscheck serve --local` with the demo's backend, sends it one event, and says where the result appears and when
// it is there. SIGINT, SIGTERM or SIGHUP ends it all.
import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {mkdirSync, openSync, readFileSync} from 'node:fs';
import {createServer} from 'node:net';
import {join} from 'node:path';
import {createInterface} from 'node:readline';
import {pullRequest, send} from './send-event.mjs';

const crosscheck = process.env.CROSSCHECK_BIN ?? 'build/release/bin/crosscheck';
const settings = 'examples/local/settings.yaml';
const upstream = 'pytorch/pytorch';
const state = '.crosscheck';
const preferredPort = 8787;
const logFile = join(state, 'serve.log');

// The first port from the preferred one on that nobody listens on.
async function freePort() {
  for (let port = preferredPort; port < preferredPort + 100; port += 1) {
    const probe = createServer();
    const free = await new Promise((answer) => {
      probe.once('error', () => answer(false));
      probe.listen(port, '127.0.0.1', () => answer(true));
    });
    if (!free) continue;
    await new Promise((closed) => probe.close(closed));
    return port;
  }
  throw new Error(`no port from ${preferredPort} to ${preferredPort + 99} is free`);
}

mkdirSync(state, {recursive: true});
const log = openSync(logFile, 'w');
// In a process group of its own: Ctrl-C reaches the server once, through us.
const server = spawn(
  crosscheck,
  [
    'serve',
    '--local',
    '--json',
    '--settings',
    settings,
    '--state-dir',
    state,
    '--db',
    join(state, 'crosscheck.db'),
    '--listen',
    `127.0.0.1:${await freePort()}`,
  ],
  {
    stdio: ['ignore', 'pipe', log],
    detached: true,
    env: {...process.env, CROSSCHECK_BIN: crosscheck},
  },
);
let stopping = false;
// SIGHUP: the terminal was closed, and nobody is left to read.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
  process.on(signal, () => {
    // Once: told twice, the server would end at once and leave its jobs behind.
    if (stopping) return;
    stopping = true;
    server.kill('SIGTERM');
    if (signal !== 'SIGHUP') console.log('\nstopping; what runs has a few seconds to end…');
  });
}
server.on('error', (error) => {
  console.error(`${crosscheck} cannot be started: ${error.message}`);
  process.exit(4);
});
server.on('exit', (code, signal) => {
  if (stopping && code === 0) {
    console.log('stopped');
    process.exit(0);
  }
  const how = code === null ? `was ended by ${signal}` : `exited ${code}`;
  console.error(`crosscheck serve ${how}; the end of its log, ${logFile}:`);
  console.error(readFileSync(logFile, 'utf8').trimEnd().split('\n').slice(-8).join('\n'));
  process.exit(code || 1);
});

const [ready] = await once(createInterface({input: server.stdout}), 'line');
const {url} = JSON.parse(ready);
const page = (path) => new URL(path, url).href;

const secret = readFileSync(join(state, 'webhook-secret'), 'utf8').trim();
const event = pullRequest({upstream});
const {number} = event.pull_request;
const sent = await send(url, {body: event, secret});
if (sent.status !== 202) {
  console.error(`the event was not accepted: ${sent.status} ${JSON.stringify(sent.answer)}`);
  server.kill('SIGTERM');
}
console.log(`crosscheck runs at      ${page('/')}
an event was sent:      pull_request opened, of ${upstream}#${number}, delivery ${sent.delivery}
its result appears at   ${page(`/pr/${number}`)}
                        the backend example/refdev runs its quick set; this takes a minute
Ctrl-C ends it. The server's log is ${logFile}.`);

// The job that this event started, once it has ended.
async function endedJob() {
  const response = await fetch(page(`/pr/${number}.json`));
  if (!response.ok) return undefined;
  const {commits} = await response.json();
  const jobs = commits.flatMap(({backends}) => backends.flatMap((backend) => backend.jobs));
  const ours = jobs.find((job) => job.established.delivery_id === sent.delivery);
  return ours?.established.completed_at ? ours : undefined;
}

const begun = Date.now();
let job;
while (job === undefined && !stopping) {
  await new Promise((wake) => setTimeout(wake, 500));
  job = await endedJob().catch(() => undefined);
}
if (job !== undefined) {
  const counts = job.results.counts;
  const what = counts
    ? `${counts.total} tests: ${counts.passed} passed, ${counts.failures} failed, ${counts.skipped} skipped`
    : `it ended as ${job.word.conclusion}, without results: see ${join(state, 'jobs')}`;
  console.log(`the result is there:    ${what} (${((Date.now() - begun) / 1000).toFixed(0)} s)
                        ${page(job.page)}`);
}

// What the compatibility suite shares: a relay in front of the double of GitHub, with the allowlist of the scenarios, and
// tables of what PyTorch's relay answers beside what this one does.
import assert from 'node:assert/strict';
import {createHmac, randomUUID} from 'node:crypto';
import {
  eventually,
  githubSettings,
  pullRequest,
  secret,
  send,
  serve,
  temporaryFolder,
  upstream,
  write,
} from '../e2e/harness.mjs';
import {GitHubDouble} from './github.mjs';
import {Issuer} from './issuer.mjs';

export const LEVELS = {
  L1: ['org/a1', 'org/a2'],
  L2: ['org/b1', 'org/b2', 'org/b3'],
  L3: ['org/c1', 'org/c2'],
  L4: ['org/d1', 'org/d2'],
};
export const REPOSITORIES = Object.values(LEVELS).flat();

export const ALLOWLIST = `L1: [${LEVELS.L1}]
L2: [${LEVELS.L2}]
L3:
  npu: {${LEVELS.L3[0]}: [alice]}
  xpu: {${LEVELS.L3[1]}: [bob]}
L4:
  - ${LEVELS.L4[0]}: carol, dave
  - ${LEVELS.L4[1]}
`;

// `settings`: more lines for the settings file. Returns the parts and what most tests do with them.
export async function relay(
  t,
  {allowlist = ALLOWLIST, settings = '', env = {}, issuers, prepare = () => {}} = {},
) {
  const github = await new GitHubDouble({repositories: [...REPOSITORIES, upstream]}).start();
  t.after(() => github.stop());
  const issuer = await new Issuer().start();
  t.after(() => issuer.stop());
  const folder = temporaryFolder(t);
  prepare(folder, github);
  const base = githubSettings(folder, {
    github,
    repositories: [],
    more: `${issuers?.(issuer) ?? issuer.settings}${settings}`,
  });
  write(folder, 'allowlist.yaml', allowlist);
  const start = () =>
    serve(t, {folder, settings: base.settings, env: {...base.env, ...env}, local: false});
  const server = await start();
  const event = async (options = {}) => {
    const sent = await send(server.url, {body: pullRequest(options), secret});
    assert.equal(sent.status, 202, JSON.stringify(sent.answer));
    return sent.delivery;
  };
  const received = (repository, delivery) =>
    github.accepted(repository).filter((d) => d.client_payload.delivery_id === delivery);
  // An event that has reached `repositories`, so that they may report.
  const dispatched = async (repositories = REPOSITORIES, options = {}) => {
    const delivery = await event(options);
    await eventually('it is dispatched', () =>
      repositories.every((repository) => received(repository, delivery).length > 0),
    );
    return delivery;
  };
  return {
    github,
    issuer,
    folder,
    server,
    event,
    received,
    dispatched,
    restart: start,
  };
}

export const hmac = (body, {key = secret, algorithm = 'sha256'} = {}) =>
  `${algorithm}=${createHmac(algorithm, key).update(body).digest('hex')}`;

// A webhook, header by header: `undefined` leaves one out. Returns {status, answer}.
export async function webhook(url, {event = 'pull_request', body, headers = {}, path} = {}) {
  const raw = typeof body === 'string' ? body : JSON.stringify(body);
  const all = {
    'content-type': 'application/json',
    'x-github-event': event,
    'x-github-delivery': randomUUID(),
    'x-hub-signature-256': hmac(raw),
    ...headers,
  };
  const response = await fetch(new URL(path ?? '/github/webhook', url), {
    method: 'POST',
    headers: Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined)),
    body: raw,
    redirect: 'manual',
  });
  const text = await response.text();
  return {status: response.status, answer: text.startsWith('{') ? JSON.parse(text) : text};
}

// Rows of [what is sent, what PyTorch's relay answers, what this one does, why they differ]: `ask(what)` sends. Where the
// two are the same, the last is left out.
export async function compare(t, rows) {
  for (const [name, ask, theirs, ours, why] of rows) {
    await t.test(name, async () => {
      const {status, answer} = await ask();
      assert.equal(status, ours, `answered ${status}: ${JSON.stringify(answer)}`);
      if (theirs !== ours) assert.ok(why, `${theirs} became ${ours}: say why`);
      else assert.equal(why, undefined, 'they do not differ');
      if (ours >= 400) assert.ok(answer.detail?.length > 3, 'the reason is given');
    });
  }
}

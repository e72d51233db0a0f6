// One event as GitHub would send it: a real payload, said to be of the upstream repository, signed.
//   node scripts/send-event.mjs URL UPSTREAM      the webhook's secret comes on standard input
import {sign} from '@octokit/webhooks-methods';
import {randomUUID} from 'node:crypto';
import {createRequire} from 'node:module';
import {pathToFileURL} from 'node:url';

const examples = createRequire(import.meta.url)('@octokit/webhooks-examples');

const all = examples.default ?? examples;

// The events of which there are examples.
export const eventNames = all.map((entry) => entry.name);

// Every example payload of an event, as GitHub sent it once.
export function payloads(event) {
  return all.find((entry) => entry.name === event).examples;
}

// `payload` with its repository renamed: name, owner and every address in it.
export function ofRepository(payload, fullName) {
  const [was, now] = [payload.repository.full_name, fullName];
  const [owner, name] = now.split('/');
  const copy = JSON.parse(JSON.stringify(payload).replaceAll(was, now));
  copy.repository.name = name;
  copy.repository.owner.login = owner;
  return copy;
}

// A pull request's event, of now; `change` may set whatever a test needs.
export function pullRequest({
  upstream = 'pytorch/pytorch',
  action = 'opened',
  change = () => {},
} = {}) {
  const payload = ofRepository(
    payloads('pull_request').find((example) => example.action === action),
    upstream,
  );
  payload.pull_request.updated_at = `${new Date().toISOString().slice(0, 19)}Z`;
  change(payload);
  return payload;
}

// Sends `body` (an object, or bytes as they are). Returns {status, answer, delivery}.
export async function send(
  url,
  {event = 'pull_request', body, secret, delivery = randomUUID(), signature, headers = {}},
) {
  const raw = typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
  const signed = signature ?? (secret === undefined ? undefined : await hmac(secret, raw));
  const response = await fetch(new URL('/github/webhook', url), {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'user-agent': 'GitHub-Hookshot/crosscheck',
      'x-github-event': event,
      'x-github-delivery': delivery,
      ...(signed === undefined ? {} : {'x-hub-signature-256': signed}),
      ...headers,
    },
    body: raw,
  });
  const text = await response.text();
  let answer = text;
  try {
    answer = JSON.parse(text);
  } catch {
    // An answer that is not JSON stays text.
  }
  return {
    status: response.status,
    answer,
    delivery,
    contentType: response.headers.get('content-type'),
  };
}

async function hmac(secret, raw) {
  if (typeof raw === 'string' && raw !== '') return sign(secret, raw);
  // webhooks-methods signs non-empty text only; tests also sign bytes that are not UTF-8, and nothing.
  const {createHmac} = await import('node:crypto');
  return `sha256=${createHmac('sha256', secret).update(raw).digest('hex')}`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const [url, upstream] = process.argv.slice(2);
  let secret = '';
  for await (const chunk of process.stdin) secret += chunk;
  const payload = pullRequest({upstream});
  const sent = await send(url, {body: payload, secret: secret.trim()});
  console.log(JSON.stringify({...sent, pull_request: payload.pull_request.number}));
  process.exitCode = sent.status < 300 ? 0 : 1;
}

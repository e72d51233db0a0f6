// The pages in Debian's Chromium: they load, show the run with the JUnit file's counts, work without JavaScript, and
// axe finds nothing in either theme.
import assert from 'node:assert/strict';
import {after, before, test} from 'node:test';
import {launch, objections} from './browser.mjs';
import {
  endedJob,
  junitCountsOfTheRun,
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
  faults: {'aten::mm.out': 'wrong_value', 'aten::exp.out': 'raise'},
};

const cleanUp = [];
let browser, server, job, junit, number, head;

before(async () => {
  const context = {after: (action) => cleanUp.unshift(action)};
  const folder = temporaryFolder(context);
  const {settings, env} = refdevSettings(folder, {select: SELECT, device: FAULTS});
  server = await serve(context, {folder, settings, env});
  const event = pullRequest({
    change: (payload) => (payload.pull_request.title = '<script>alert(1)</script> & "quotes"'),
  });
  ({number, head} = event.pull_request);
  const {delivery} = await send(server.url, {body: event, secret});
  job = await endedJob(server, number, delivery);
  junit = junitCountsOfTheRun(folder);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  for (const action of cleanUp) await action();
});

const pages = () => ({
  fleet: '/',
  grid: '/b/example/refdev',
  'pull request': `/pr/${number}`,
  commit: `/commit/${head.sha}`,
  job: job.page,
  'all tests of the job': `${job.page}?outcome=all`,
  readiness: '/b/example/refdev/readiness',
  allowlist: '/allowlist',
  operations: '/ops',
  'what the numbers mean': '/help/metrics',
  'an unknown page': '/no/such/page',
});

// Opens a page; what the browser complains of is a failure.
async function open(path, options = {}) {
  const context = await browser.newContext({baseURL: server.url, ...options});
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => {
    const expected = message.text().includes('404') && path === '/no/such/page';
    if (['error', 'warning'].includes(message.type()) && !expected) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('requestfailed', (request) =>
    complaints.push(`${request.url()}: ${request.failure().errorText}`),
  );
  page.on('request', (request) => {
    if (!request.url().startsWith(server.url)) complaints.push(`asks ${request.url()}`);
  });
  const response = await page.goto(path, {waitUntil: 'load'});
  return {page, response, complaints, close: () => context.close()};
}

const number_of = async (page, id) =>
  Number(await page.locator(`#count-${id}`).getAttribute('data-count'));

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? 'with JavaScript' : 'without JavaScript';

  test(`from the fleet to the failed test, ${how}`, async () => {
    const {page, complaints, close} = await open('/', {javaScriptEnabled});
    await page.getByRole('link', {name: 'example/refdev'}).first().click();
    await page.waitForURL('**/b/example/refdev');
    await page.locator(`a[href="${job.page}"]`).first().click();
    await page.waitForURL(`**${job.page}`);
    assert.equal(await number_of(page, 'total'), junit.total);
    assert.equal(await number_of(page, 'failures'), junit.failed);
    assert.equal(await number_of(page, 'passed'), junit.passed);
    const text = await page.locator('#test-list').innerText();
    assert.match(text, /test_forward_mm/);
    assert.match(text, /not close/i);
    assert.deepEqual(complaints, []);
    await close();
  });

  test(`the pull request's page has the verdict and leads to the job, ${how}`, async () => {
    const {page, complaints, close} = await open(`/pr/${number}`, {javaScriptEnabled});
    assert.match(await page.locator('h1').innerText(), /<script>alert\(1\)<\/script> & "quotes"/);
    assert.match(await page.locator('.verdict').first().innerText(), /fail/i);
    await page.locator(`a[href^="${job.page}"]`).first().click();
    await page.waitForURL(`**${job.page}*`);
    assert.deepEqual(complaints, []);
    await close();
  });

  test(`the form goes to a pull request, ${how}`, async () => {
    const {page, close} = await open('/', {javaScriptEnabled});
    await page.locator('#go').fill(`#${number}`);
    await page.locator('#go').press('Enter');
    await page.waitForURL(`**/pr/${number}`);
    await close();
  });

  test(`the job's tests are filtered, ${how}`, async () => {
    const {page, close} = await open(`${job.page}?outcome=all`, {javaScriptEnabled});
    await page.locator('input[name=q]').last().fill('test_forward_mm');
    await page.locator('input[name=q]').last().press('Enter');
    await page.waitForURL(/q=test_forward_mm/);
    const shown = await page.locator('#test-list > li:visible').allInnerTexts();
    assert.equal(shown.length, 1);
    assert.match(shown[0], /test_forward_mm/);
    await close();
  });
}

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing to object to, ${colorScheme}`, async () => {
    const found = [];
    for (const [name, path] of Object.entries(pages())) {
      const {page, close} = await open(path, {colorScheme, bypassCSP: true});
      found.push(...(await objections(page)).map((objection) => `${name}: ${objection}`));
      await close();
    }
    assert.deepEqual(found, []);
  });
}

test('no page has errors, asks elsewhere, or scrolls sideways on a telephone', async () => {
  const found = [];
  for (const [name, path] of Object.entries(pages())) {
    const {page, complaints, close} = await open(path, {viewport: {width: 390, height: 844}});
    const wide = await page.evaluate(() => {
      const {clientWidth, scrollWidth} = document.documentElement;
      if (scrollWidth <= clientWidth) return [];
      const elements = [...document.querySelectorAll('body *')]
        .filter((element) => element.getBoundingClientRect().left + element.scrollWidth > clientWidth)
        .map((element) => element.cloneNode().outerHTML);
      return [`${scrollWidth} wide on ${clientWidth}`, ...elements];
    });
    found.push(...wide.map((element) => `${name}: reaches out of the page: ${element}`));
    found.push(...complaints.map((complaint) => `${name}: ${complaint}`));
    await close();
  }
  assert.deepEqual(found, []);
});

test('titles differ, and the policy allows nothing unsafe', async () => {
  const titles = new Set();
  for (const [name, path] of Object.entries(pages())) {
    const {page, response, close} = await open(path);
    const policy = response.headers()['content-security-policy'];
    assert.match(policy, /default-src 'none'|default-src 'self'/, name);
    assert.doesNotMatch(policy, /unsafe|\*|data:|http:/, name);
    assert.equal(response.headers()['x-content-type-options'], 'nosniff', name);
    titles.add(await page.title());
    await close();
  }
  // Filters do not make another page.
  assert.equal(titles.size, Object.keys(pages()).length - 1);
});

test('every page has a JSON twin with the same numbers', async () => {
  const {page, close} = await open(job.page);
  const twin = await page.locator('link[rel=alternate]').getAttribute('href');
  const {run} = await server.json(twin);
  for (const name of ['total', 'passed', 'failed', 'failures', 'faults']) {
    assert.equal(await number_of(page, name), run.counts[name], name);
  }
  await close();
  for (const path of ['/', '/b/example/refdev', `/pr/${number}`, `/commit/${head.sha}`]) {
    const {page, close} = await open(path);
    await server.json(await page.locator('link[rel=alternate]').getAttribute('href'));
    await close();
  }
});

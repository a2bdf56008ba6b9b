import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { launchBrowser } from '../browser/browser.ts';
import { testReceiver, testSandbox } from './support.ts';

let browser: Browser;
beforeAll(async () => {
  browser = await launchBrowser();
});
afterAll(() => browser.close());

async function open(options: Parameters<Browser['newContext']>[0] = {}) {
  const context = await browser.newContext(options);
  onTestFinished(() => context.close());
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(String(error)));
  return { page, complaints };
}

const rowOf = (page: Page, name: string) => page.locator('[data-part=records] tbody tr', { hasText: name });

test('a person creates a policy, takes it through its states, and watches the deliveries go out', async () => {
  const { url, register } = await testSandbox({
    seed: { policies: [], riskAssessments: [], vendors: [] },
    // One after the other, so that they arrive in order.
    deliveryConcurrency: 1,
  });
  const receiver = await testReceiver();
  await register(receiver.url, ['policy.*']);
  const { page, complaints } = await open();
  await page.goto(url);
  await page.locator('[data-live][data-state=live]').waitFor();

  await page.locator('summary', { hasText: 'New policy' }).click();
  const form = page.locator('form', { has: page.getByRole('button', { name: 'Create' }) });
  await form.getByLabel('Name').fill('<i>Clean</i> desk');
  await form.getByRole('button', { name: 'Create' }).click();
  const row = rowOf(page, '<i>Clean</i> desk');
  for (const [button, status] of [
    ['submit', 'in review'],
    ['approve', 'approved'],
    ['archive', 'archived'],
  ] as const) {
    await row.getByRole('button', { name: new RegExp(`^${button} `) }).click();
    await row.locator('.badge', { hasText: status }).waitFor();
  }
  expect(await row.getByRole('button').allTextContents()).toEqual(['redraft', 'delete']);
  const delivered = page.locator('[data-part=deliveries] tbody tr', { hasText: 'delivered' });
  await delivered.nth(3).waitFor();
  expect(receiver.types()).toEqual(['policy.created', 'policy.updated', 'policy.approved', 'policy.updated']);
  expect(complaints).toEqual([]);
});

test('what happens elsewhere appears without a reload, and leaves alone what somebody is writing', async () => {
  const { url, control } = await testSandbox();
  const { page, complaints } = await open();
  await page.goto(`${url}/?kind=vendor`);
  await page.locator('[data-live][data-state=live]').waitFor();
  await control('POST', '/mutate', { kind: 'vendor', op: 'add', fields: { name: 'From elsewhere' } });
  await rowOf(page, 'From elsewhere').waitFor();

  await page.locator('summary', { hasText: 'New vendor' }).click();
  const name = page.locator('form.form').first().getByLabel('Name');
  await name.fill('half a na');
  await control('PATCH', '/faults', { drop: 0.25 });
  await page.locator('input[name=drop][value="25"]').waitFor();
  expect(await name.inputValue()).toBe('half a na');
  expect(complaints).toEqual([]);
});

test('with a token, a browser that has given it as the password sends forms and is kept up to date', async () => {
  const token = 'a-token-of-the-sandbox';
  const { url } = await testSandbox({ token });
  const { page } = await open({ httpCredentials: { username: 'anyone', password: token } });
  await page.goto(`${url}/?q=policy-0012`);
  await page.locator('[data-live][data-state=live]').waitFor();
  const row = rowOf(page, 'policy-0012');
  await row.getByRole('button', { name: /^submit/ }).click();
  await row.locator('.badge', { hasText: 'in review' }).waitFor();
});

test('the token may also be in the address that a person opens', async () => {
  const token = 'a-token-of-the-sandbox';
  const { url } = await testSandbox({ token });
  const { page, complaints } = await open();
  const address = new URL(`${url}/?q=policy-0012`);
  Object.assign(address, { username: 'anyone', password: token });
  await page.goto(address.href);
  await page.locator('[data-live][data-state=live]').waitFor();
  const row = rowOf(page, 'policy-0012');
  await row.getByRole('button', { name: /^submit/ }).click();
  await row.locator('.badge', { hasText: 'in review' }).waitFor();
  expect(complaints).toEqual([]);
});

test('what somebody has written is still there after it was refused, beside the reason', async () => {
  const { url, control } = await testSandbox();
  const { page } = await open();
  await page.goto(url);
  await page.locator('[data-live][data-state=live]').waitFor();
  const shapes = page.locator('[data-part=shapes]');
  await shapes.locator('summary').click();
  const text = shapes.getByLabel('As JSON');
  await text.fill('{"statuses": "upper"');
  await shapes.getByRole('button', { name: 'Set shapes' }).click();
  await page
    .getByRole('alert')
    .filter({ hasText: 'Shapes: not JSON, such as {"statuses": "upper"}' })
    .waitFor();
  expect(await text.inputValue()).toBe('{"statuses": "upper"');
  await text.press('End');
  await text.pressSequentially('}');
  await shapes.getByRole('button', { name: 'Set shapes' }).click();
  await expect.poll(() => page.getByRole('alert').textContent()).toBe('');
  expect((await control('GET', '/shapes')).body.statuses).toBe('upper');
});

test('without scripts the forms work all the same', async () => {
  const { url, control } = await testSandbox();
  const { page } = await open({ javaScriptEnabled: false });
  await page.goto(`${url}/?q=policy-0012`);
  await rowOf(page, 'policy-0012')
    .getByRole('button', { name: /^submit/ })
    .click();
  await rowOf(page, 'policy-0012').locator('.badge', { hasText: 'in review' }).waitFor();
  expect(new URL(page.url()).search).toBe('?kind=policy&q=policy-0012');
  expect((await control('GET', '/state')).body.policies.at(-1).status).toBe('in_review');
});

test('a person allows access, and the browser brings the code to the application', async () => {
  const asked: string[] = [];
  const application = createServer((incoming, outgoing) => {
    asked.push(incoming.url!);
    outgoing.end('thank you');
  });
  await new Promise<void>((resolve) => application.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    application.closeAllConnections();
    application.close();
  });
  const redirectUri = `http://127.0.0.1:${(application.address() as AddressInfo).port}/callback`;
  const { url } = await testSandbox({
    oauth: { application: { id: 'app', secret: 'secret-of-the-app', redirectUri } },
  });
  const { page, complaints } = await open();
  const query = { client_id: 'app', response_type: 'code', redirect_uri: redirectUri, scope: 'read' };
  await page.goto(`${url}/oauth/authorize?${new URLSearchParams({ ...query, state: 'kept' })}`);
  await page.getByRole('button', { name: 'Allow' }).click();
  await page.getByText('thank you').waitFor();
  const brought = new URL(asked[0]!, redirectUri).searchParams;
  expect(brought.get('state')).toBe('kept');
  expect(brought.get('code')).toMatch(/^[\w-]{43}$/);
  expect(complaints).toEqual([]);
});

import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser } from 'playwright-core';
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

test('a person presses a button, and sees the change without a reload, and its event is delivered', async () => {
  const token = 'a-token-of-the-sandbox';
  const { url, register } = await testSandbox({ token });
  const receiver = await testReceiver();
  await register(receiver.url, ['vendor.*']);
  // As a browser asks for it; the page's script sends it along.
  const { page, complaints } = await open({ httpCredentials: { username: 'anyone', password: token } });
  await page.goto(url);
  await page.getByRole('button', { name: 'vendor.added' }).click();
  await page.getByRole('heading', { name: 'Vendors · 9' }).waitFor();
  await page.getByText(`announces it to ${receiver.url}`).waitFor();
  await expect.poll(() => receiver.types()).toEqual(['vendor.added']);
  await fetch(`${url}/_sandbox/mutate`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ type: 'vendor.added', fields: { name: 'From elsewhere' } }),
  });
  await page.getByText('From elsewhere').waitFor();
  expect(complaints).toEqual([]);
});

test('without scripts the buttons work all the same', async () => {
  const { url } = await testSandbox();
  const { page } = await open({ javaScriptEnabled: false });
  await page.goto(url);
  await page.getByRole('button', { name: 'mass deletion' }).click();
  await page.getByRole('heading', { name: 'Vendors · 2' }).waitFor();
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

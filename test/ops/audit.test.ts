import { afterEach, beforeEach, expect, test } from 'vitest';
import { createAuditLog } from '../../src/ops/audit.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { bearer, type Harness, OPERATE, opsHarness } from './harness.ts';

let h: Harness;
beforeEach(async () => {
  h = await opsHarness();
});
afterEach(() => h.close());

const pause = () => h.app.request('/api/pause', { method: 'POST', headers: bearer(OPERATE) });
const entries = async () =>
  (await h.store.list('audit', { limit: 9 })).items.map(
    ({ actor, action, outcome }) => `${actor} ${action} ${outcome}`,
  );

test('what an operator asks for is in the audit before it is done', async () => {
  const seen: string[][] = [];
  h.context.actions.pause = async () => {
    seen.push(await entries());
  };
  expect((await pause()).status).toBe(200);
  expect(seen).toEqual([['olga pause asked']]);
  expect(await entries()).toEqual(['olga pause ok']);
});

test('an entry whose outcome was lost, as by a kill in between, goes on saying that it was asked for', async () => {
  h.context.store.settleAudit = () => Promise.reject(new StoreUnavailable('disk full', { remedy: '' }));
  expect((await pause()).status).toBe(200);
  expect(h.asked).toEqual(['pause']);
  expect(await entries()).toEqual(['olga pause asked']);
});

test('what cannot be put into the audit is not done', async () => {
  h.context.store.audit = () => Promise.reject(new StoreUnavailable('disk full', { remedy: '' }));
  expect((await pause()).status).toBe(503);
  expect(h.asked).toEqual([]);
});

test('what was asked for and failed is in the audit as failed', async () => {
  h.context.actions.pause = () => Promise.reject(new StoreUnavailable('disk full', { remedy: '' }));
  expect((await pause()).status).toBe(503);
  expect(await entries()).toEqual(['olga pause failed']);
});

test('the log says why an entry was lost, at debug with the stack', async () => {
  const lines: Record<string, unknown>[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const error = new StoreUnavailable('disk full', { remedy: '' });
  h.context.store.audit = () => Promise.reject(error);
  const { note } = createAuditLog({ ...h.context, logger: createLogger({ level: 'debug', destination }) });
  await note('olga', 'sign_in', 'ok', null);
  expect(lines).toMatchObject([{ msg: 'audit entry lost', error: 'disk full', stack: error.stack }]);
});

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { EVENT_TYPES } from '../../src/compliance/kinds.ts';
import { cli } from '../cli/executable.ts';
import { testReceiver, testSandbox } from './support.ts';

const EMPTY = { policies: [], riskAssessments: [], vendors: [] };

it.each([
  ['an empty sandbox', EMPTY],
  ['one with records', undefined],
])('of %s every type of event can be had for the asking', async (_, seed) => {
  const sandbox = await testSandbox(seed === undefined ? {} : { seed });
  const receiver = await testReceiver();
  await sandbox.register(receiver.url, ['policy.*', 'risk.*', 'vendor.*']);
  for (const type of EVENT_TYPES) {
    const { status, body } = await sandbox.control('POST', '/mutate', { type });
    expect(status, type).toBe(200);
    // Those before it bring a record to where this one is possible.
    expect(body.events.at(-1).type).toBe(type);
    await sandbox.quiesce();
    expect(receiver.received.at(-body.events.length)?.event.id).toBeDefined();
    expect(new Set(receiver.types())).toContain(type);
  }
});

it('the command names what was sent, sets fields, and says why nothing was', async () => {
  const sandbox = await testSandbox();
  const trigger = (...args: string[]) => cli(['sandbox', 'trigger', ...args, '--sandbox', sandbox.url]);
  const alone = await trigger('vendor.updated');
  expect(alone).toMatchObject({ code: 0, err: expect.stringContaining('Nobody is registered') });
  const receiver = await testReceiver();
  await sandbox.register(receiver.url, ['vendor.*']);
  const { body: added } = await sandbox.control('POST', '/mutate', { type: 'vendor.added' });
  const id = added.events[0].record_id;
  const done = await trigger(
    ...['vendor.updated', '--record', id, '--field', 'owner=Legal', '--field', 'tier=2'],
    ...['--field', 'crmId=12345678901234567890'],
  );
  expect(done).toMatchObject({ code: 0, err: '' });
  expect(done.out).toMatch(new RegExp(`^vendor\\.updated {2}evt-\\w+ {2}vendor ${id}\\n$`));
  const { body: state } = await sandbox.control('GET', '/state');
  expect(state.vendors.find((vendor: { id: string }) => vendor.id === id)).toMatchObject({
    owner: 'Legal',
    tier: 2,
  });
  // A double would round it.
  const shown = await fetch(`${sandbox.url}/_sandbox/state`);
  expect(await shown.text()).toContain('"crmId":12345678901234567890');
  expect(await trigger('policy.updated', '--record', 'nope')).toMatchObject({
    code: 1,
    err: expect.stringContaining('There is no policy with this id'),
  });
  expect(await trigger('vendor.updated', '--field', 'tier=2', '--field', 'tier=3')).toMatchObject({
    code: 2,
    err: expect.stringContaining('"tier" is set twice'),
  });
  expect(
    await cli(['sandbox', 'trigger', 'policy.updated', '--sandbox', 'http://127.0.0.1:1']),
  ).toMatchObject({
    code: 1,
    err: expect.stringContaining('start one with "sandbox"'),
  });
});

it('the command signs in with the token that the sandbox has, whatever its characters, from a file as well', async () => {
  const token = 'a token from a file, with ž in it';
  const sandbox = await testSandbox({ token });
  const folder = mkdtempSync(join(tmpdir(), 'sandbox-token-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'token');
  writeFileSync(path, `${token}\n`);
  const ask = (settings: Record<string, string>) =>
    cli(['sandbox', 'trigger', 'vendor.added', '--sandbox', sandbox.url], settings);
  expect(await ask({})).toMatchObject({ code: 1, err: expect.stringContaining('401') });
  expect(await ask({ SANDBOX_TOKEN: token })).toMatchObject({ code: 0 });
  expect(await ask({ SANDBOX_TOKEN_FILE: path })).toMatchObject({ code: 0 });
});

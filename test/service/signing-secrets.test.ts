import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { sealSecret } from '../../src/compliance/secrets.ts';
import type { Logger } from '../../src/platform/logger.ts';
import { candidateSecrets, createSigningSecrets } from '../../src/service/signing-secrets.ts';
import type { StoredRegistration } from '../../src/store/store.ts';

const KEY = randomBytes(32);
const SECRET = randomBytes(16).toString('hex');
const NOW = 1_800_000_000_000;

function registration(upstreamId: string, secret: string | null, changes: Partial<StoredRegistration> = {}) {
  return {
    upstreamId,
    url: 'https://mirror.example/webhooks',
    events: [],
    delivers: [],
    description: '',
    sealedSecret:
      secret === null ? null : sealSecret(KEY, secret, { table: 'registrations', row: upstreamId }),
    sealedAnswer: null,
    createdAt: new Date(NOW).toISOString(),
    ...changes,
  };
}

function scene(...held: StoredRegistration[]) {
  const scene = {
    held,
    wall: NOW,
    key: KEY as Uint8Array | null,
    problems: [] as string[],
    awaited: '',
    configured: [] as Uint8Array[],
  };
  const warn = (line: { target: string; reason: string }) =>
    scene.problems.push(`${line.target} ${line.reason}`);
  const secrets = createSigningSecrets({
    store: { listRegistrations: async () => scene.held, readFact: async () => scene.awaited },
    clock: { wall: () => scene.wall },
    config: {
      get credentialsKey() {
        return scene.key;
      },
      webhook: { secrets: () => scene.configured, secretEncoding: 'hex' },
    },
    logger: { child: () => ({ warn }) } as unknown as Logger,
  });
  const names = () => secrets.facts().map((each) => each.registration);
  return Object.assign(scene, { secrets, names });
}

test('a secret that makes no key is left out and told once, and the others go on', async () => {
  const s = scene(
    registration('wh_text', 'whsec_0123456789abcdef'),
    registration('wh_half', `${'00'.repeat(20)}zz`),
    registration('wh_short', '00'.repeat(15)),
    registration('wh_none', null),
    registration('wh_good', SECRET),
  );
  for (let looks = 0; looks < 3; looks++) await s.secrets.refresh();
  expect(s.secrets.keys()).toEqual([Buffer.from(SECRET, 'hex')]);
  expect(s.names()).toEqual(['wh_good']);
  expect(s.problems).toEqual([
    'wh_text is not wholly hex',
    'wh_half is not wholly hex',
    'wh_short is shorter than 16 bytes once decoded',
  ]);
});

test('a secret that is forgotten is gone with the next look', async () => {
  const s = scene(registration('wh_1', SECRET));
  await s.secrets.refresh();
  s.held = [];
  await s.secrets.refresh();
  expect(s.secrets.keys()).toEqual([]);
});

test('what does not open refuses a start; later what was open stays, is told once, and is tried again', async () => {
  const fresh = randomBytes(32);
  const under = (key: Uint8Array, id: string) => ({
    sealedSecret: sealSecret(key, SECRET, { table: 'registrations', row: id }),
  });
  await expect(
    scene(registration('wh_1', null, under(fresh, 'wh_1'))).secrets.refresh(),
  ).rejects.toMatchObject({
    code: 'secret_unreadable',
  });

  const s = scene(registration('wh_1', SECRET), registration('wh_2', `${SECRET}00`));
  await s.secrets.refresh();
  const both = s.secrets.keys();
  // Re-encrypted, and the service's key is still the old one.
  s.held = [
    registration('wh_1', null, under(fresh, 'wh_1')),
    registration('wh_3', null, under(fresh, 'wh_3')),
  ];
  for (let looks = 0; looks < 3; looks++) await s.secrets.refresh();
  expect(s.secrets.keys()).toEqual([both[0]]);
  expect(s.problems).toHaveLength(2);
  s.key = fresh;
  await s.secrets.refresh();
  expect(s.names()).toEqual(['wh_1', 'wh_3']);
});

test('doctor tries the secrets that it can read', () => {
  const sealedSecret = sealSecret(randomBytes(32), SECRET, { table: 'registrations', row: 'wh_other_key' });
  const held = [
    registration('wh_other_key', null, { sealedSecret }),
    registration('wh_not_stored', null),
    registration('wh_new', 'new'),
  ];
  const webhook = { secrets: () => [Buffer.from('set')], secretEncoding: 'utf8' } as never;
  expect(candidateSecrets({ webhook, credentialsKey: KEY }, held)).toEqual([
    { text: 'set', name: 'WEBHOOK_SECRETS number 1' },
    { text: 'new', name: 'of the registration wh_new' },
  ]);
  expect(candidateSecrets({ webhook, credentialsKey: null }, held)).toHaveLength(1);
});

test('a secret is awaited from the look that finds it asked for until the look that finds it here, or its time is over', async () => {
  const s = scene();
  await s.secrets.refresh();
  expect(s.secrets.isAwaited()).toBe(false);
  s.awaited = String(NOW + 1000);
  await s.secrets.refresh();
  expect(s.secrets.isAwaited()).toBe(true);
  s.held = [registration('wh_1', SECRET)];
  s.awaited = '';
  await s.secrets.refresh();
  expect({ awaited: s.secrets.isAwaited(), names: s.names() }).toEqual({ awaited: false, names: ['wh_1'] });
  s.awaited = String(NOW + 1000);
  await s.secrets.refresh();
  s.wall += 1000;
  expect(s.secrets.isAwaited()).toBe(false);
});

test('the configured secrets come first, and a change of their file counts at once', async () => {
  const s = scene(registration('wh_1', SECRET));
  await s.secrets.refresh();
  s.configured = [Buffer.from('one')];
  expect(s.secrets.keys()).toEqual([Buffer.from('one'), Buffer.from(SECRET, 'hex')]);
  s.configured = [Buffer.from('two')];
  expect(s.secrets.keys()).toEqual([Buffer.from('two'), Buffer.from(SECRET, 'hex')]);
});

import { onTestFinished } from 'vitest';
import * as routes from '../../src/ops/api/routes.ts';
import { listen } from '../browser/listener.ts';
import { fillDay } from '../browser/scene.ts';
import { cli, inTemporaryDirectory } from '../cli/executable.ts';
import { bearer, type Harness, READ } from '../ops/harness.ts';
import { API_KEY, startIndependentUpstream } from '../support/independent-upstream.ts';
import { everyHelp } from './command-lines.ts';
import { listener } from './declarations.ts';

/** Take `--json`, and are not run here: one never ends, and one needs a sandbox. */
const LEFT_OUT = ['deliveries follow', 'sandbox trigger', 'api'];

/** Every other command that takes `--json`, with what it needs; some in several ways. The first ones need no service. */
const OWN = ['webhook list'];
const ASKING = [
  ...['doctor', 'status', 'audit', 'deliveries', 'deliveries list', 'deliveries show rejection:1'],
  ...['deliveries show evt_0000', 'problems', 'problems list', 'problems show 1', 'records vendor'],
  ...['records list vendor', 'records show vendor ven_0', 'records history vendor ven_0'],
  ...['sync list', 'sync show 3'],
];

/** The shape of every JSON that is read, from the API and from commands; one that several share stands there once. */
export async function answers(): Promise<string> {
  const h = await listener();
  const pending = await fill(h);
  const sources = new Map<string, string[]>();
  const note = (source: string, value: unknown) => {
    const shape = [...shapeOf(value)].map(([path, types]) => `  ${path}: ${[...types].sort().join(' | ')}\n`);
    const text = shape.sort().join('');
    sources.set(text, [...(sources.get(text) ?? []), source]);
  };
  const get = (path: string) => h.app.request(path, { headers: bearer(READ) });

  for (const { method, path } of Object.values(routes)) {
    if (method !== 'get' || ['/openapi.json', '/metrics'].includes(path)) continue;
    const named = path
      .replace('{kind}/{id}', 'vendor/ven_0')
      .replace('{kind}', 'vendor')
      .replace('{view}', 'sync_status');
    const about = named.replace('{view}', 'sync_status');
    const tried = await Promise.all(
      ['evt_0000', 1, 3, pending].map((id) => get(about.replace('{id}', `${id}`))),
    );
    const found = await Promise.all(tried.filter(({ ok }) => ok).map((response) => response.json()));
    if (found.length === 0) throw new Error(`${path}: the scene has nothing to show there`);
    note(`GET ${path}`, found.toSorted((one, other) => shapeOf(other).size - shapeOf(one).size)[0]);
  }
  note('a problem', await (await get('/api/problems?limit=0')).json());

  const upstream = await startIndependentUpstream();
  onTestFinished(() => upstream.close());
  upstream.records.put('vendors', { id: 'ven_0', name: 'Another name' });
  const settings = {
    DATABASE_URL: `file:${h.database}`,
    SYNC_SETTLE_SECONDS: '0.01',
    COMPLIANCE_BASE_URL: upstream.baseUrl,
    COMPLIANCE_API_KEY: API_KEY,
    COMPLIANCE_REQUESTS_PER_MINUTE: '100000',
  };
  const run = async (command: string, env: Record<string, string>) => {
    const { out, err } = await inTemporaryDirectory((cwd) =>
      cli([...command.split(' '), '--json'], env, { cwd }),
    );
    if (out === '') throw new Error(`${command} --json printed nothing: ${err}`);
    return JSON.parse(out);
  };
  for (const { command, text } of await everyHelp()) {
    if (!/ {2}--json /.test(text) || LEFT_OUT.includes(command)) continue;
    const ways = [...OWN, ...ASKING].filter((way) => `${way} `.startsWith(`${command} `));
    if (ways.length === 0) throw new Error(`${command} takes --json: say how it is run`);
  }
  for (const way of OWN) note(`${way} --json`, await run(way, settings));
  const { url, close } = await listen(h);
  onTestFinished(close);
  for (const way of ASKING) note(`${way} --json`, await run(way, { OPS_URL: url, OPS_TOKEN: READ }));
  return [...sources].map(([text, all]) => `${all.join('\n')}\n${text}\n`).join('');
}

/** What is there for `answers` to show. Returns the number of a full sync. */
async function fill(h: Harness): Promise<number> {
  const { synced } = await fillDay(h);
  await h.store.saveRegistration({
    upstreamId: 'wh_1',
    url: 'https://mirror.example/webhooks',
    description: 'golden',
    createdAt: new Date(0).toISOString(),
    events: ['policy.*'],
    delivers: ['policy.*'],
    sealedSecret: null,
    sealedAnswer: null,
  });
  const proven = { eventId: 'evt_0000', recordId: 'ven_0', leads: false };
  await h.store.learnPointer({ kind: 'vendor', path: 'a.b', ...proven }, h.now());
  h.live.running = h.live.running.flatMap((one) => [one, { ...one, kind: 'risk_assessment' }]);
  return synced;
}

/** The types that stand at each path. What is in a list stands at one path together. */
function shapeOf(value: unknown, path = '.', shape = new Map<string, Set<string>>()): typeof shape {
  const type = value === null ? 'null' : Array.isArray(value) ? 'list' : typeof value;
  shape.set(path, (shape.get(path) ?? new Set()).add(type));
  for (const [key, item] of Object.entries(typeof value === 'object' ? (value ?? {}) : {})) {
    shapeOf(item, type === 'list' ? `${path}[]` : path === '.' ? key : `${path}.${key}`, shape);
  }
  return shape;
}

import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { z } from 'zod';
import type { Kind } from '../../src/compliance/kinds.ts';
import * as routes from '../../src/ops/api/routes.ts';
import { failPending } from '../support/pending.ts';
import { bearer, type Harness, incoming, NOTHING_SYNCED, OPERATE, opsHarness, READ } from './harness.ts';

const TIMING = { settleMs: 10_000 };
/** Of the URL map, what is for people: pages and what they are made of. */
const FOR_PROGRAMS = /^\/(api\/|metrics$|openapi\.json$|livez$|readyz$)/;

let h: Harness;
// biome-ignore lint/suspicious/noExplicitAny: a document is looked into freely
let document: any;

beforeAll(async () => {
  h = await opsHarness();
  document = await (await h.app.request('/openapi.json', { headers: bearer(READ) })).json();
});
afterAll(() => h.close());

describe('the OpenAPI document', () => {
  it('is valid OpenAPI 3.1', async () => {
    const result = await new Validator().validate(structuredClone(document));
    expect(result).toEqual({ valid: true });
    expect(document.openapi).toBe('3.1.0');
  });

  it('describes every route that is for programs, and no other', () => {
    const served = h.app.routes
      .filter(({ method, path }) => ['GET', 'POST'].includes(method) && FOR_PROGRAMS.test(path))
      .map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`);
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(described.sort()).toEqual([...new Set(served)].sort());
  });

  it('names each operation once, and every reference in it leads somewhere', () => {
    const ids = Object.values(routes).map((route) => route.operationId);
    expect(new Set(ids).size).toBe(ids.length);
    const references = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)];
    expect(references.length).toBeGreaterThan(20);
    for (const [, name] of references) expect(document.components.schemas).toHaveProperty(name!);
  });

  it('says what every route is for, and what a problem is', () => {
    for (const methods of Object.values(document.paths)) {
      // biome-ignore lint/suspicious/noExplicitAny: as above
      for (const operation of Object.values(methods as Record<string, any>)) {
        expect(operation.summary).toMatch(/^[A-Z].*[^.]$/);
        const isOpen = operation.security?.length === 0;
        expect(Object.keys(operation.responses).includes('default')).toBe(!isOpen);
      }
    }
  });

  it('asks for a body wherever none is refused, and for none elsewhere', async () => {
    for (const [path, methods] of Object.entries(document.paths)) {
      // biome-ignore lint/suspicious/noExplicitAny: as above
      const body = (methods as any).post?.requestBody;
      if (body === undefined) continue;
      const address = path.replace('{kind}', 'vendor').replace('/problems/{id}', '/problems/1');
      const { status } = await h.app.request(address, { method: 'POST', headers: bearer(OPERATE) });
      expect([path, body.required === true]).toEqual([path, status === 400]);
    }
  });
  it('names no schema as TypeScript names a type of its own that generated clients use', () => {
    const names = Object.keys(document.components.schemas);
    for (const name of ['Record', 'Promise', 'Array', 'Partial']) expect(names).not.toContain(name);
  });

  it('wants a token, as what it describes does', async () => {
    expect((await h.app.request('/openapi.json')).status).toBe(401);
  });
});

it('what is answered is what the document says', async () => {
  await h.mirror('policy', 'pol_1', { name: 'Access', version: '2', status: 'approved' });
  await h.mirror('vendor', 'v1', { name: 'One' });
  await h.store.accept(
    {
      events: [incoming(), incoming({ id: 'evt_2', recordId: 'pol_2' })],
      unusable: [{ reason: 'no id', t: '1', body: Buffer.from('{}'), kind: null, recordId: null }],
    },
    h.now(),
    TIMING,
  );
  await h.store.recordRejections([
    {
      reason: 'bad_signature',
      t: '1',
      bytes: 2,
      bodySha256: 'x',
      header: 't=1',
      body: null,
      wall: 1000,
      address: '192.0.2.1',
      times: 1,
    },
  ]);
  const fullSync = await h.store.startSyncRun('vendor', 'test', h.now());
  const result = { outcome: 'complete' as const, error: null, progress: NOTHING_SYNCED };
  await h.store.finishSyncRun(fullSync.id, { ...result, differences: { new: 0 } }, h.now());
  await h.store.audit({ actor: 'olga', action: 'pause', outcome: 'ok', target: null }, h.now());
  const held = {
    policy: await h.hold('policy', ['h1', 'h2', 'h3']),
    vendor: await h.hold('vendor', ['h1', 'h2', 'h3']),
  };
  const digestOf = async (kind: Kind) => (await h.store.pendingOf(kind, Date.now())).digest;
  const bodies: Record<string, object> = {
    [`/api/problems/${held.vendor}/approve`]: { digest: await digestOf('vendor') },
    [`/api/problems/${held.policy}/keep`]: { digest: await digestOf('policy') },
  };
  const lost = { reason: 'restored', kind: 'risk_assessment', recordId: null } as const;
  await h.store.openProblem(lost, 'x', h.now());
  const [restored] = (await h.store.list('problems', { limit: 1 })).items;
  bodies[`/api/problems/${restored!.id}/resolve`] = { digest: restored!.digest };
  h.live.service.notifies = true;

  const values: Record<string, string> = { kind: 'policy', id: 'pol_1', view: 'sync_status' };
  const own: Record<string, string> = {
    '/api/deliveries/{id}': '/api/deliveries/evt_1',
    '/api/deliveries/{id}/retry': '/api/deliveries/evt_1/retry',
    '/api/deliveries/{id}/dismiss': '/api/deliveries/rejection:1/dismiss',
    '/api/syncs/{id}': `/api/syncs/${fullSync.id}`,
    '/api/problems/{id}/approve': `/api/problems/${held.vendor}/approve`,
    '/api/problems/{id}/keep': `/api/problems/${held.policy}/keep`,
    '/api/problems/{id}/resolve': `/api/problems/${restored!.id}/resolve`,
  };
  await failPending(h.store, h.now(), 'it broke', 2);

  type Answers = Record<number, { content: Record<string, { schema: z.ZodType }> }>;
  let looked = 0;
  for (const route of Object.values(routes)) {
    const path = own[route.path] ?? route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => values[name]!);
    const response = await h.app.request(path, {
      method: route.method.toUpperCase(),
      headers: bearer(OPERATE),
      ...(bodies[path] === undefined ? {} : { body: JSON.stringify(bodies[path]) }),
    });
    const described = (route.responses as Answers)[response.status];
    expect(described, `${route.method} ${path} answered ${response.status}`).toBeDefined();
    const schema = described?.content['application/json']?.schema;
    if (schema === undefined) continue;
    const body: unknown = await response.json();
    const parsed = schema.safeParse(body);
    expect(parsed.error?.issues ?? [], `${route.method} ${path}`).toEqual([]);
    if (Array.isArray((body as { items?: unknown[] }).items)) {
      expect((body as { items: unknown[] }).items.length, path).toBeGreaterThan(0);
    }
    looked += 1;
  }
  expect(looked).toBeGreaterThan(20);
});

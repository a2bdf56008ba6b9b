import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { loadConfig } from '../../src/platform/config.ts';
import { startService } from '../../src/service/service.ts';
import { eventually } from '../convergence/service.ts';
import { header, nowSeconds, SECRET } from '../receive/sign.ts';

export const OLGA = 'olga-operates-with-this-token-alone';
export const RITA = 'rita-reads-with-this-token-and-only-reads';

/** The service as it runs, with a small compliance service before it that holds vendors and nothing else. */
export interface RealService {
  opsUrl: string;
  /** By id; what is taken out is gone upstream. */
  vendors: Map<string, Record<string, unknown>>;
  /** From now on no request for a page is answered, so that a full sync can be watched; looks whether anybody answers are. */
  hold(): void;
  /** Answers one, once there is one. */
  answerOne(): Promise<void>;
  /** Answers all that wait, and whatever comes. */
  release(): void;
  /** A signed delivery; resolves with its event's id once it is acknowledged. */
  deliver(type: string, data: Record<string, unknown>): Promise<string>;
  /** The tokens' file from now on. */
  writeTokens(text: string): void;
  stop(): Promise<void>;
}

const PAGE_SIZE = 5;

export async function startRealService(): Promise<RealService> {
  const dir = mkdtempSync(join(tmpdir(), 'operator-'));
  const tokens = join(dir, 'tokens');
  const writeTokens = (text: string) => writeFileSync(tokens, text, { mode: 0o600 });
  writeTokens(`olga:operate:${OLGA},rita:read:${RITA}`);
  const vendors = new Map<string, Record<string, unknown>>();
  for (let n = 1; n <= 30; n += 1) {
    const id = `ven_${String(n).padStart(2, '0')}`;
    vendors.set(id, { id, name: `Vendor ${n}`, status: 'approved' });
  }
  /** Null: none is held. Whoever gave up waiting is not among them. */
  let held: Set<() => void> | null = null;
  const upstream = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://upstream.invalid');
    const go = () => {
      held?.delete(go);
      const [status, body] = answer(url, vendors);
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    response.once('close', () => held?.delete(go));
    if (held === null || url.searchParams.get('perPage') !== String(PAGE_SIZE)) go();
    else held.add(go);
  });
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
  const { port } = upstream.address() as AddressInfo;
  const service = await startService({
    config: loadConfig({
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS_FILE: tokens,
      DATABASE_URL: `file:${join(dir, 'mirror.db')}`,
      WEBHOOK_SECRETS: SECRET,
      COMPLIANCE_BASE_URL: `http://127.0.0.1:${port}/v1`,
      COMPLIANCE_API_KEY: 'key-of-the-tests',
      COMPLIANCE_REQUESTS_PER_MINUTE: '6000',
      COMPLIANCE_PAGE_SIZE: String(PAGE_SIZE),
      SYNC_SETTLE_SECONDS: '0.3',
      SYNC_FULL_MINUTES: '0',
    }),
    logger: pino({ level: 'silent' }),
  });
  const send = async (body: string, answer: number) => {
    const response = await fetch(`${service.receiverUrl}/webhooks`, {
      method: 'POST',
      headers: { 'x-webhook-signature': header(nowSeconds(), body, SECRET) },
      body,
    });
    if (response.status !== answer) throw new Error(`the delivery was answered ${response.status}`);
  };
  return {
    opsUrl: service.opsUrl,
    vendors,
    hold() {
      held = new Set();
    },
    async answerOne() {
      const answerIt = await eventually('a request upstream', () => [...(held ?? [])][0] ?? null);
      answerIt();
    },
    release() {
      const waiting = [...(held ?? [])];
      held = null;
      for (const go of waiting) go();
    },
    async deliver(type, data) {
      const { id, body } = eventOf(type, data);
      await send(body, 202);
      return id;
    },
    writeTokens,
    async stop() {
      await service.stop();
      upstream.closeAllConnections();
      await new Promise((resolve) => upstream.close(resolve));
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function eventOf(type: string, data: Record<string, unknown>): { id: string; body: string } {
  const id = `evt_${randomUUID()}`;
  return { id, body: JSON.stringify({ id, type, created: new Date().toISOString(), data }) };
}

function answer(url: URL, vendors: ReadonlyMap<string, object>): [number, object] {
  if (url.pathname === '/v1/vendors') {
    const from = (Number(url.searchParams.get('page') ?? 1) - 1) * PAGE_SIZE;
    const data = [...vendors.values()].slice(from, from + PAGE_SIZE);
    return [200, { data, meta: { total: vendors.size } }];
  }
  if (url.pathname.startsWith('/v1/policies')) return [200, { data: [], meta: { total: 0 } }];
  const vendor = vendors.get(decodeURIComponent(url.pathname.split('/').at(-1) ?? ''));
  return vendor === undefined ? [404, { error: 'not found' }] : [200, { data: vendor }];
}

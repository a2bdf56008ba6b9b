import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { onTestFinished } from 'vitest';
import { systemClock } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { startService } from '../../src/service/service.ts';
import { API_KEY, startIndependentUpstream } from '../support/independent-upstream.ts';
import { createSender, SIGNING_SECRET } from '../support/independent-upstream-sender.ts';

const TOKEN = 'operate-token-of-the-tests-of-thirt';

export interface Line {
  msg: string;
  stage: string;
  kind: string | null;
  record_id: string | null;
  outcome: string;
  reason: string;
}

/** The service over a file of its own, before the independent upstream, with every line that it logs. */
export async function startedService() {
  const upstream = await startIndependentUpstream();
  onTestFinished(() => upstream.close());
  const dir = mkdtempSync(join(tmpdir(), 'problem-lines-'));
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }));
  const lines: Line[] = [];
  const destination = {
    write(text: string) {
      lines.push(JSON.parse(text));
    },
  };
  const service = await startService({
    config: loadConfig({
      PORT: '0',
      OPS_PORT: '0',
      OPS_TOKENS: `olga:operate:${TOKEN}`,
      WEBHOOK_SECRETS: SIGNING_SECRET,
      DATABASE_URL: `file:${join(dir, 'mirror.db')}`,
      COMPLIANCE_BASE_URL: upstream.baseUrl,
      COMPLIANCE_API_KEY: API_KEY,
      COMPLIANCE_REQUESTS_PER_MINUTE: '100000',
      SYNC_SETTLE_SECONDS: '0.1',
    }),
    logger: createLogger({ level: 'info', destination }),
    // Given a clock, it has no threads: to start them for each case would take most of the time.
    clock: systemClock(),
  });
  onTestFinished(() => service.stop());
  const sender = createSender(`${service.receiverUrl}/webhooks`);
  onTestFinished(() => sender.close());
  const database = new Database(join(dir, 'mirror.db'), { readonly: true });
  onTestFinished(() => void database.close());
  const deliver = async (id: string, event: object | string, header?: string) => {
    const created = new Date().toISOString();
    const body = typeof event === 'string' ? event : JSON.stringify({ id, created, ...event });
    return await sender.attempt({ id, body }, header);
  };
  const operate = async (path: string) => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    return (await fetch(`${service.opsUrl}${path}`, { method: 'POST', headers })).status;
  };
  const read = async (path: string): Promise<unknown> => {
    const headers = { authorization: `Bearer ${TOKEN}` };
    return await (await fetch(`${service.opsUrl}${path}`, { headers })).json();
  };
  return {
    service,
    upstream,
    lines,
    deliver,
    operate,
    read,
    token: TOKEN,
    database,
    rows: () =>
      database.prepare('SELECT reason, resolved_at FROM problems').all() as { resolved_at: unknown }[],
  };
}

import { createHmac, randomUUID } from 'node:crypto';
import { Agent, request } from 'node:http';
import type { Resource, UpstreamRecord } from './independent-upstream-records.ts';

/** The independent upstream's deliveries: signed as the specification writes the header, payloads thin where it shows none. */

export const SIGNING_SECRET = 'independent-signing-secret-0123456789';

export type EventType =
  | `policy.${'created' | 'updated' | 'deleted' | 'approved'}`
  | `risk.${'identified' | 'assessed' | 'mitigated' | 'escalated'}`
  | `vendor.${'added' | 'updated' | 'assessed' | 'removed'}`;

export interface OutgoingEvent {
  id: string;
  body: string;
}

/** Of whole seconds, as the specification's `<timestamp>` may well be. */
const created = (wall: number) => `${new Date(wall).toISOString().slice(0, 19)}Z`;

export function eventAbout(
  type: EventType,
  resource: Resource,
  record: UpstreamRecord,
  id: string = randomUUID(),
  wall: number = Date.now(),
): OutgoingEvent {
  const { name, version, status } = record;
  const data = resource === 'policies' ? { policyId: record.id, name, version, status } : { id: record.id };
  return { id, body: JSON.stringify({ id, type, created: created(wall), data }) };
}

export function signature(body: string, options: { secret?: string; t?: number } = {}): string {
  const t = options.t ?? Math.floor(Date.now() / 1000);
  const hex = createHmac('sha256', options.secret ?? SIGNING_SECRET)
    .update(`${t}.${body}`)
    .digest('hex');
  return `t=${t}, v1=${hex}`;
}

/** Long enough for a receiver that is starting up, on a busy machine too; a sender would give up, too. */
const ANSWER_WITHIN_MS = 30_000;

export interface Sender {
  /** One attempt, signed now. The status, or null when no answer came. */
  attempt(event: OutgoingEvent, header?: string): Promise<number | null>;
  /** Tries until it is taken. False: it was given up. */
  deliver(event: OutgoingEvent, waitsMs: readonly number[]): Promise<boolean>;
  close(): void;
}

export function createSender(url: string, connections = 16): Sender {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });

  function attempt(event: OutgoingEvent, header = signature(event.body)): Promise<number | null> {
    return new Promise((resolve) => {
      const sent = request(
        url,
        {
          agent,
          method: 'POST',
          timeout: ANSWER_WITHIN_MS,
          headers: { 'x-webhook-signature': header, 'content-length': Buffer.byteLength(event.body) },
        },
        (response) => {
          response.resume();
          response.once('end', () => resolve(response.statusCode ?? null));
          response.once('error', () => resolve(null));
        },
      );
      sent.once('timeout', () => sent.destroy());
      sent.once('error', () => resolve(null));
      sent.end(event.body);
    });
  }

  return {
    attempt,
    async deliver(event, waitsMs) {
      for (const waitMs of [0, ...waitsMs]) {
        if (waitMs > 0) await new Promise((resolve) => setTimeout(resolve, waitMs));
        const status = await attempt(event);
        if (status !== null && status >= 200 && status < 300) return true;
      }
      return false;
    },
    close: () => agent.destroy(),
  };
}

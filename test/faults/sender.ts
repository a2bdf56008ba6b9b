import { Agent, request } from 'node:http';
import { header, nowSeconds } from '../receive/sign.ts';

/** Policies that the events of a run are about, in turn. */
const RECORDS = 20;
/** A service that hangs must not hang the check of it. */
const TIMEOUT_MS = 60_000;

export interface Answer {
  status: number;
  retryAfter: string | null;
  id: string;
}

export interface Sender {
  /** Ids of events that were answered 202, in the order of their answers. */
  readonly acknowledged: readonly string[];
  /** Every other answer. */
  readonly refused: readonly Answer[];
  /** Sends one event, signed, with an id and a payload of its own. Null: no answer came. */
  send(port: number): Promise<Answer | null>;
  /** The same event again. */
  sendAgain(port: number, id: string): Promise<Answer | null>;
  /** Over several connections, until `enough` says so or nobody answers any more. */
  load(port: number, enough: () => boolean): Promise<void>;
  /** The same, for a service that is to end by itself: until it does, or has had far more than its chances to. */
  loadToDeath(port: number): Promise<void>;
  /** A sender with the same promises, whose further ones this one does not share. */
  frozen(): Sender;
  close(): void;
}

const CONNECTIONS = 4;
/** Answers after which a fault that should have ended the service will not come any more. */
const DEADLY_LOAD = 5_000;

export function createSender(run: string, paddingBytes = 200, promised: readonly string[] = []): Sender {
  const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS });
  const acknowledged = [...promised];
  const refused: Answer[] = [];
  const created = new Date().toISOString();
  // A promised one is never sent again but by its number.
  let sent = promised.length * 2;

  function bodyOf(number: number): string {
    const id = `evt_${run}_${number}`;
    const data = {
      policyId: `pol_${number % RECORDS}`,
      name: `Policy ${number}`,
      version: `1.${number}`,
      status: 'draft',
      summary: 'x'.repeat(paddingBytes),
    };
    return JSON.stringify({ id, type: 'policy.updated', created, data });
  }

  async function post(port: number, number: number): Promise<Answer | null> {
    const body = bodyOf(number);
    const answer = await exchange(agent, port, body);
    return answer === null ? null : { ...answer, id: `evt_${run}_${number}` };
  }

  async function send(port: number): Promise<Answer | null> {
    const answer = await post(port, sent++);
    if (answer?.status === 202) acknowledged.push(answer.id);
    else if (answer !== null) refused.push(answer);
    return answer;
  }

  async function load(port: number, enough: () => boolean): Promise<void> {
    const one = async () => {
      while (!enough()) if ((await send(port)) === null) return;
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, one));
  }

  return {
    acknowledged,
    refused,
    send,
    sendAgain: (port, id) => post(port, Number(id.slice(id.lastIndexOf('_') + 1))),
    load,
    loadToDeath: (port) =>
      load(port, () => acknowledged.length + refused.length >= promised.length + DEADLY_LOAD),
    frozen: () => createSender(run, paddingBytes, acknowledged),
    close: () => agent.destroy(),
  };
}

function exchange(agent: Agent, port: number, body: string): Promise<Omit<Answer, 'id'> | null> {
  return new Promise((resolve) => {
    const outgoing = request(
      {
        agent,
        host: '127.0.0.1',
        port,
        path: '/webhooks',
        method: 'POST',
        timeout: TIMEOUT_MS,
        headers: {
          'content-type': 'application/json',
          'content-length': Buffer.byteLength(body),
          'x-webhook-signature': header(nowSeconds(), body),
        },
      },
      (incoming) => {
        incoming.resume();
        incoming.once('error', () => resolve(null));
        incoming.once('end', () =>
          resolve({
            status: incoming.statusCode ?? 0,
            retryAfter: incoming.headers['retry-after'] ?? null,
          }),
        );
        incoming.once('close', () => resolve(null));
      },
    );
    outgoing.once('timeout', () => outgoing.destroy());
    outgoing.once('error', () => resolve(null));
    outgoing.end(body);
  });
}

import { header, nowSeconds } from '../receive/sign.ts';

/** Bodies are filled up to this many bytes: what a delivery with a handful of fields comes to. */
const BODY_BYTES = 480;

const STATUSES = ['draft', 'in_review', 'approved', 'archived'] as const;

export interface SignedDelivery {
  id: string;
  body: string;
  /** Value of X-Webhook-Signature. */
  signature: string;
}

/**
 * `count` policy events about `records` policies in turn, every event with an id and a payload of its own. All
 * carry the same `created`: while payloads are all there is, ties go to the later arrival, so every single one
 * must be shown, in whatever order parallel connections bring them.
 */
export function* deliveries(run: string, count: number, records: number): Generator<SignedDelivery> {
  const created = new Date().toISOString();
  const t = nowSeconds();
  for (let index = 0; index < count; index++) {
    const id = `evt_${run}_${index}`;
    const data = {
      policyId: `pol_${index % records}`,
      name: `Policy ${index % records} as of ${run}`,
      version: `1.${index}`,
      status: STATUSES[index % STATUSES.length],
      owner: { name: 'Security', email: 'security@example.com' },
      controls: ['access', 'logging', 'backup'],
      summary: '',
    };
    const event = { id, type: 'policy.updated', created, data };
    data.summary = 'x'.repeat(Math.max(0, BODY_BYTES - JSON.stringify(event).length));
    const body = JSON.stringify(event);
    yield { id, body, signature: header(t, body) };
  }
}

/** The whole request as it goes over the wire, so that sending costs the generator next to nothing. */
export function requestBytes(delivery: SignedDelivery): Buffer {
  return Buffer.from(
    'POST /webhooks HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: compliance-service\r\nAccept: */*\r\n' +
      `Content-Type: application/json\r\nX-Webhook-Signature: ${delivery.signature}\r\n` +
      `Content-Length: ${Buffer.byteLength(delivery.body)}\r\n\r\n${delivery.body}`,
  );
}

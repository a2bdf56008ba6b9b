import { createHmac } from 'node:crypto';

export const SECRET = '0123456789abcdef0123456789abcdef';

/** The reference that the code is held against: Node's crypto and nothing of ours. */
export function mac(
  t: string | number,
  body: string | Uint8Array,
  secret: string | Uint8Array = SECRET,
): string {
  return createHmac('sha256', secret).update(`${t}.`).update(body).digest('hex');
}

export function header(
  t: string | number,
  body: string | Uint8Array,
  secret: string | Uint8Array = SECRET,
): string {
  return `t=${t}, v1=${mac(t, body, secret)}`;
}

export const nowSeconds = () => Math.floor(Date.now() / 1000);

export function eventBody(fields: Record<string, unknown> = {}): string {
  return JSON.stringify({
    id: 'evt_1',
    type: 'policy.updated',
    created: '2026-01-01T00:00:00Z',
    data: { policyId: 'pol_1', name: 'Access control' },
    ...fields,
  });
}

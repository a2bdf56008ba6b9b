import type { EventType, Kind } from '../../src/compliance/kinds.ts';

/** A record of each kind, made through the API where the API can, and what happens to it then. */
const STEPS: Record<EventType, readonly { kind: Kind; op: string }[]> = {
  'policy.created': [],
  'policy.updated': [{ kind: 'policy', op: 'update' }],
  'policy.approved': [
    { kind: 'policy', op: 'submit' },
    { kind: 'policy', op: 'approve' },
  ],
  'policy.deleted': [{ kind: 'policy', op: 'delete' }],
  'risk.identified': [],
  'risk.assessed': [{ kind: 'risk_assessment', op: 'assess' }],
  'risk.mitigated': [
    { kind: 'risk_assessment', op: 'assess' },
    { kind: 'risk_assessment', op: 'mitigate' },
  ],
  'risk.escalated': [{ kind: 'risk_assessment', op: 'escalate' }],
  'vendor.added': [],
  'vendor.updated': [{ kind: 'vendor', op: 'update' }],
  'vendor.assessed': [{ kind: 'vendor', op: 'assess' }],
  'vendor.removed': [{ kind: 'vendor', op: 'delete' }],
};

const COLLECTIONS = { policy: '/v1/policies', risk: '/v1/risk-assessments', vendor: null } as const;

/**
 * Has the sandbox emit an event of `type` about a new record, and returns that record's id. `authorization`:
 * the header for creates.
 */
export async function makeHappen(type: EventType, url: string, authorization: string): Promise<string> {
  const family = type.slice(0, type.indexOf('.')) as keyof typeof COLLECTIONS;
  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    const answer = await fetch(url + path, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path} ${JSON.stringify(body)}: ${await answer.text()}`);
    return (await answer.json()) as { id: string; data: { id?: string; policyId?: string } };
  };
  const mutate = (body: unknown) => post('/_sandbox/mutate', body);

  const fields = { name: `For ${type}` };
  const path = COLLECTIONS[family];
  let id: string;
  if (path === null) id = (await mutate({ kind: 'vendor', op: 'create', fields })).id;
  else {
    const { data } = await post(path, fields, { authorization });
    id = data.policyId ?? data.id!;
  }
  for (const step of STEPS[type]) {
    await mutate({ ...step, id, ...(step.op === 'update' ? { fields: { name: 'Another name' } } : {}) });
  }
  return id;
}

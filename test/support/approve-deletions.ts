import type { Kind } from '../../src/compliance/kinds.ts';
import { digestOf } from '../../src/store/reports.ts';

interface OperatorsApi {
  get<T>(path: string): Promise<T>;
  post(path: string, body?: unknown): Promise<unknown>;
}

/** As an operator does who has looked at the upstream. Returns how many it approved; rejects when others wait by then. */
export async function approveDeletions(service: OperatorsApi): Promise<number> {
  const { items: problems } = await service.get<{ items: { id: number; reason: string; kind: Kind }[] }>(
    '/api/problems',
  );
  let approved = 0;
  for (const { id, kind } of problems.filter(({ reason }) => reason === 'pending_deletions')) {
    const ids: string[] = [];
    for (let after: string | null = ''; after !== null; ) {
      const query = `deletion_pending=true&limit=500${after && `&${new URLSearchParams({ after })}`}`;
      const page: { items: { id: string }[]; next: string | null } = await service.get(
        `/api/records/${kind}?${query}`,
      );
      ids.push(...page.items.map((record) => record.id));
      after = page.next;
    }
    await service.post(`/api/problems/${id}/approve`, { digest: digestOf(kind, ids) });
    approved += ids.length;
  }
  return approved;
}

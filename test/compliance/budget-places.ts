import type { Budget, Lane } from '../../src/compliance/budget.ts';

/** Resolves when a request may leave; it is under way until it is told to end. */
export function take(
  budget: Pick<Budget, 'run'>,
  lane: Lane,
  signal: AbortSignal,
): Promise<{ end: () => void }> {
  const sent = Promise.withResolvers<{ end: () => void }>();
  const { promise, resolve } = Promise.withResolvers<void>();
  const send = () => {
    sent.resolve({ end: resolve });
    return promise;
  };
  budget.run(lane, signal, send).catch(sent.reject);
  return sent.promise;
}

import { freePort } from '../../sandbox/demo/children.ts';

/** Of 127.0.0.1, each another; free a moment ago, and as good as certain to stay so. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}

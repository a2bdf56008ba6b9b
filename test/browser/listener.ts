import { serve } from '@hono/node-server';
import type { Harness } from '../ops/harness.ts';

/** The operators' listener of a harness, on a port of its own. */
export function listen(h: Harness): Promise<{ url: string; close(): void }> {
  return new Promise((resolve) => {
    const handle = serve({ fetch: h.app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }) =>
      resolve({
        url: `http://127.0.0.1:${port}`,
        close: () => {
          handle.close();
          if ('closeAllConnections' in handle) handle.closeAllConnections();
        },
      }),
    );
  });
}

import { createHash } from 'node:crypto';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';

export interface Asset {
  path: string;
  contentType: string;
  text: string;
}

/** The hash in the name changes with the content, so that a browser may keep each for good. */
function asset(name: string, extension: string, contentType: string, text: string): Asset {
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 12);
  return { path: `/assets/${name}.${hash}.${extension}`, contentType, text };
}

export const styleSheet = asset('style', 'css', 'text/css; charset=utf-8', STYLE);
export const script = asset('script', 'js', 'text/javascript; charset=utf-8', SCRIPT);

export function serveAsset({ contentType, text }: Asset): () => Response {
  return () =>
    new Response(text, {
      headers: { 'content-type': contentType, 'cache-control': 'public, max-age=31536000, immutable' },
    });
}

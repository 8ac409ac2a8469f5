export { type Code, EigentimeError, type Instant, type Rate, type Span } from "./protocol.js";
export * from "./timeline.js";

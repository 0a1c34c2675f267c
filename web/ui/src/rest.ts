// What is not needed to begin with, in one part: many small ones would be larger together.
export { AsOf } from "./asof";
export { BadgeOfLog } from "./badge";
export { Asked } from "./confirm";
export { Help } from "./help";
export { EventsPage } from "./pages/events";
export { JobsPage } from "./pages/jobs";
export { LeasePage } from "./pages/lease";
export { Drawer } from "./pages/member";
export { NetworkPage } from "./pages/network";
export { OnionPage } from "./pages/onion";
export { WorkersPage } from "./pages/workers";
// All parts reach what the page begins with, or that would be several files.
import "./shell";

// The page of workflows: a part of its own.
export { WorkflowsPage } from "./pages/workflows";
// As rest.ts does.
import "./shell";

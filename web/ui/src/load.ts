// The page of load tests, which few open: a part of its own.
export { LoadsPage } from "./pages/loads";

// The page of zones, which clusters of one site do without: a part of its own.
export { ZonesPage } from "./pages/zones";

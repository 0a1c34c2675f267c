package observability

import (
	"encoding/json"
	"fmt"
	"strings"
)

// DashboardFile is the dashboard for Grafana, in this directory.
const DashboardFile = "dashboard.json"

// Row is a headline of the dashboard with the panels below it.
type Row struct {
	Title  string
	Panels []Panel
}

// Panel is one picture.
type Panel struct {
	Title   string
	Unit    string // of Grafana: s, bytes, percentunit
	Now     bool   // the present value alone, not its course
	Queries []Query
}

// Query is one PromQL expression; $job is the cluster that was chosen. {{label}} in the
// legend stands for a label.
type Query struct{ Expr, Legend string }

// chart is a panel of one query.
func chart(title, unit, expr, legend string) Panel {
	return Panel{Title: title, Unit: unit, Queries: []Query{{of(expr), legend}}}
}

// number is a panel of one present value.
func number(title, unit, expr string) Panel {
	return Panel{Title: title, Unit: unit, Now: true, Queries: []Query{{of(expr), ""}}}
}

// quantiles is a panel of the median and the slowest hundredth of a histogram.
func quantiles(title, metric string) Panel {
	p := Panel{Title: title, Unit: "s"}
	for _, q := range []struct{ q, legend string }{{"0.5", "half are faster"}, {"0.99", "99 of 100 are faster"}} {
		p.Queries = append(p.Queries, Query{
			of(fmt.Sprintf("histogram_quantile(%s, sum by (le) (rate(%s_bucket{$}[$__rate_interval])))", q.q, metric)), q.legend,
		})
	}
	return p
}

// of puts the matcher of the cluster in the place of a $ in braces.
func of(expr string) string {
	return strings.NewReplacer("{$}", `{job="$job"}`, "{$,", `{job="$job",`).Replace(expr)
}

const (
	host = "{{instance}}"
	pair = "{{instance}} to {{peer}}"
)

// Dashboard returns all rows, from the whole to the parts.
func Dashboard() []Row {
	return []Row{
		{"Cluster", []Panel{
			number("Holders", "none", `sum(skein_lease_holder{$})`),
			number("Hosts scraped", "none", `count(skein_build_info{$})`),
			number("Members suspect or dead", "none", `max(sum by (instance) (skein_coord_peers{$, health=~"suspect|dead"}))`),
			number("Jobs open", "none", `sum(skein_jobs{$})`),
			chart("Members, as each host sees them", "none", `sum by (instance, health) (skein_coord_peers{$})`, "{{instance}}: {{health}}"),
			chart("Versions", "none", `count by (version) (skein_build_info{$})`, "{{version}}"),
			chart("Certificates end in", "s", `skein_member_cert_expiry_timestamp_seconds{$} - time()`, host),
			chart("Clocks off by", "s", `skein_clock_offset_seconds{$}`, pair),
		}},
		{"Lease", []Panel{
			chart("Holder", "none", `skein_lease_holder{$}`, host),
			chart("Term", "none", `skein_lease_term{$}`, host),
			chart("Lease ends in", "s", `(skein_lease_expiry_timestamp_seconds{$} > 0) - time()`, host),
			chart("Terms begun and lost in an hour", "none", `sum by (change) (increase(skein_lease_changes_total{$}[1h]))`, "{{change}}"),
			chart("Publishing duty", "none", `skein_lease_publishing{$}`, host),
			chart("Abstaining voters", "none", `skein_lease_abstaining{$}`, host),
			quantiles("Making a vote durable", "skein_lease_vote_save_seconds"),
			chart("Lease messages refused", "ops", `sum by (reason) (rate(skein_lease_refused_total{$}[$__rate_interval]))`, "{{reason}}"),
		}},
		{"Mesh", []Panel{
			chart("Round trips", "s", `skein_coord_rtt_seconds{$}`, pair),
			chart("Peers that do not answer", "none", `skein_mesh_peers{$, state="unreachable"}`, host),
			chart("Received", "Bps", `sum by (instance) (rate(skein_mesh_receive_bytes_total{$}[$__rate_interval]))`, host),
			chart("Sent", "Bps", `sum by (instance) (rate(skein_mesh_transmit_bytes_total{$}[$__rate_interval]))`, host),
			chart("Last handshake", "s", `time() - (skein_mesh_last_handshake_timestamp_seconds{$} > 0)`, pair),
			chart("Peers reached over onion services", "none", `skein_coord_onion_peers{$}`, host),
			chart("Messages refused", "ops", `sum by (reason) (rate(skein_coord_rejected_total{$}[$__rate_interval]))`, "{{reason}}"),
			chart("Stalls of the loop in an hour", "none", `increase(skein_coord_stalls_total{$}[1h])`, host),
		}},
		{"Log", []Panel{
			chart("Events stored", "ops", `sum by (instance) (rate(skein_eventlog_records_total{$}[$__rate_interval]))`, host),
			chart("Own events that a voter lacks", "none", `skein_eventlog_peer_lag_events{$}`, pair),
			quantiles("Append until durable", "skein_eventlog_append_duration_seconds"),
			quantiles("Sync of one segment", "skein_eventlog_fsync_duration_seconds"),
			quantiles("From another host's stamp until folded here", "skein_eventlog_propagation_seconds"),
			chart("Size", "bytes", `skein_eventlog_size_bytes{$}`, host),
			chart("Left on the disk", "bytes", `skein_eventlog_disk_free_bytes{$} >= 0`, host),
			chart("Damage", "none", `skein_eventlog_poisoned{$} or skein_eventlog_equivocations_total{$} or skein_eventlog_snapshot_mismatches_total{$}`, host),
		}},
		{"Jobs", []Panel{
			chart("Jobs open", "none", `sum by (state) (skein_jobs{$})`, "{{state}}"),
			chart("Chunks open", "none", `sum by (state) (skein_chunks_open{$})`, "{{state}}"),
			chart("Attempts", "ops", `sum by (state) (rate(skein_chunks_total{$}[$__rate_interval]))`, "{{state}}"),
			chart("Oldest job that waits", "s", `max(skein_job_queue_oldest_seconds{$})`, "oldest"),
			quantiles("From submission to the first chunk", "skein_job_queue_duration_seconds"),
			quantiles("Assigning a chunk", "skein_assign_duration_seconds"),
			chart("Attempts running", "none", `skein_worker_running{$}`, host),
			chart("Attempts ended", "ops", `sum by (outcome) (rate(skein_worker_chunks_total{$}[$__rate_interval]))`, "{{outcome}}"),
		}},
		{"Onion", []Panel{
			chart("Last descriptor that clients found", "s", `time() - max(skein_onion_published_timestamp_seconds{$} > 0)`, "age"),
			chart("Addresses published", "none", `skein_onion_publishing{$}`, host),
			chart("Introduction points with a circuit", "none", `skein_onion_points{$}`, host),
			chart("Hosts in the descriptors", "none", `skein_onion_hosts{$}`, host),
			chart("A target is healthy", "none", `skein_onion_target_healthy{$}`, host),
			chart("Descriptors", "ops", `sum by (outcome) (rate(skein_onion_descriptors_total{$}[$__rate_interval]))`, "{{outcome}}"),
			chart("Bootstrap of tor", "percent", `skein_tor_bootstrap_percent{$}`, host),
			chart("Clients cut off", "ops", `sum by (why) (rate(skein_onion_cut_total{$}[$__rate_interval]))`, "{{why}}"),
		}},
		{"Gateway", []Panel{
			chart("Outside workers attached", "none", `skein_gateway_workers{$}`, host),
			chart("Connections", "none", `skein_gateway_connections{$}`, host),
			chart("Lets workers in", "none", `skein_gateway_ready{$}`, host),
			chart("Results", "ops", `sum by (verdict) (rate(skein_gateway_results_total{$}[$__rate_interval]))`, "{{verdict}}"),
			chart("Results that wait for the holder", "bytes", `skein_gateway_results_bytes{$}`, host),
			quantiles("Until a worker's connection has what it is told", "skein_gateway_push_seconds"),
			chart("Asked by workers", "reqps", `sum by (method) (rate(skein_gateway_calls_total{$}[$__rate_interval]))`, "{{method}}"),
			chart("Requests", "reqps", `sum by (class) (rate(skein_gateway_requests_total{$}[$__rate_interval]))`, "{{class}}"),
			chart("Proofs, tokens and codes refused", "ops", `rate(skein_gateway_auth_failures_total{$}[$__rate_interval])`, host),
			chart("Told to wait", "ops", `sum by (limit) (rate(skein_gateway_limited_total{$}[$__rate_interval]))`, "{{limit}}"),
			chart("Connections refused", "ops", `rate(skein_gateway_connections_refused_total{$}[$__rate_interval])`, host),
			chart("Detached by the holder in an hour", "none", `sum by (reason) (increase(skein_outside_drops_total{$}[1h]))`, "{{reason}}"),
		}},
		{"Overload", []Panel{
			chart("Level: 0 normal to 4 critical", "none", `skein_overload_level{$}`, host),
			chart("Refused", "reqps", `sum by (lane, reason) (rate(skein_overload_refused_total{$}[$__rate_interval]))`, "{{lane}} by {{reason}}"),
			chart("Work and control wait", "s", `skein_pressure{$, what=~"work_delay|control_delay"}`, "{{instance}}: {{what}}"),
			chart("Something waits for processor, memory, disk", "percentunit", `skein_pressure{$, what=~"cpu|memory|io"} >= 0`, "{{instance}}: {{what}}"),
			chart("Memory left", "percentunit", `skein_pressure{$, what="memory_left"} >= 0`, host),
			chart("Requests that run at once at most", "none", `min by (lane) (skein_overload_places{$})`, "{{lane}}"),
			chart("Hosts left alone that did not answer", "none", `sum by (instance) (skein_breakers_open{$})`, host),
			chart("Zones: 1 healthy to 4 unhealthy", "none", `max by (zone) (skein_zone_health{$})`, "{{zone}}"),
		}},
		{"API", []Panel{
			chart("Requests", "reqps", `sum by (class) (rate(skein_api_requests_total{$}[$__rate_interval]))`, "{{class}}"),
			chart("Requests by route", "reqps", `topk(10, sum by (route) (rate(skein_api_requests_total{$}[$__rate_interval])))`, "{{route}}"),
			chart("Told to wait", "reqps", `sum by (limit) (rate(skein_api_limited_total{$}[$__rate_interval]))`, "{{limit}}"),
			chart("Followers", "none", `skein_api_followers{$}`, host),
			chart("Followers cut", "ops", `sum by (reason) (rate(skein_api_followers_cut_total{$}[$__rate_interval]))`, "{{reason}}"),
			chart("Processor", "percentunit", `rate(process_cpu_seconds_total{$}[$__rate_interval])`, host),
			chart("Memory", "bytes", `process_resident_memory_bytes{$}`, host),
			chart("Goroutines", "none", `go_goroutines{$}`, host),
		}},
	}
}

// Sizes of the grid of Grafana, which is 24 wide.
const (
	width  = 6
	tall   = 7
	low    = 4
	across = 24
)

// object is one of JSON; its keys are written in order of the alphabet.
type object = map[string]any

// DashboardJSON returns DashboardFile, which Grafana imports.
func DashboardJSON() ([]byte, error) {
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	y := 0
	place := func(x, w, h int) object { return object{"x": x, "y": y, "w": w, "h": h} }
	for _, r := range Dashboard() {
		panels = append(panels, object{
			"id": len(panels) + 1, "type": "row", "title": r.Title, "collapsed": false, "gridPos": place(0, across, 1), "panels": []object{},
		})
		y++
		x, h := 0, 0
		for _, p := range r.Panels {
			if tallness := p.height(); x == across || h != 0 && h != tallness {
				x, y, h = 0, y+h, tallness
			} else {
				h = tallness
			}
			panel := p.object(source)
			panel["id"], panel["gridPos"] = len(panels)+1, place(x, width, h)
			panels = append(panels, panel)
			x += width
		}
		y += h
	}
	out, err := json.MarshalIndent(object{
		"uid": "skein", "title": "skein", "tags": []string{"skein"}, "schemaVersion": 38, "version": 1, "editable": true,
		"refresh": "15s", "time": object{"from": "now-3h", "to": "now"}, "timezone": "", "panels": panels,
		"annotations": object{"list": []object{}},
		"description": "A skein cluster, all of whose hosts are scraped under one job.",
		"templating": object{"list": []object{
			{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
			{
				"name": "job", "label": "Cluster (job)", "type": "query", "datasource": source, "refresh": 2, "sort": 1,
				"query": "label_values(skein_build_info, job)", "definition": "label_values(skein_build_info, job)",
			},
		}},
	}, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode dashboard: %w", err)
	}
	return append(out, '\n'), nil
}

func (p Panel) height() int {
	if p.Now {
		return low
	}
	return tall
}

func (p Panel) object(source object) object {
	var targets []object
	for i, q := range p.Queries {
		targets = append(targets, object{
			"refId": string(rune('A' + i)), "datasource": source, "expr": q.Expr, "legendFormat": q.Legend, "instant": p.Now, "range": !p.Now,
		})
	}
	out := object{
		"type": "timeseries", "title": p.Title, "datasource": source, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.Unit}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []string{}}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
	if p.Now {
		out["type"] = "stat"
		out["options"] = object{
			"reduceOptions": object{"calcs": []string{"lastNotNull"}}, "colorMode": "none", "graphMode": "none",
			"textMode": "auto", "orientation": "auto", "justifyMode": "auto", "wideLayout": true, "showPercentChange": false, "percentChangeColorMode": "standard",
		}
	}
	return out
}

package observability

import "time"

// Severities: somebody must get up, or somebody must look today.
const (
	critical = "critical"
	warning  = "warning"
)

// Alert is one rule. All hosts of a cluster are scraped under one job.
type Alert struct {
	Name     string // SkeinNoHolder
	Expr     string
	For      time.Duration
	Severity string
	// Summary is one sentence; {{ $labels.NAME }} stands for a label of the alert.
	Summary string
	// Fires are histories in which the alert fires, Quiet those in which it never does.
	Fires, Quiet []History
}

// History is what Prometheus scraped.
type History struct {
	Name string
	Step time.Duration // between scrapes and evaluations; 0: 15 s
	// Series maps a series to its values, in the notation of promtool.
	Series map[string]string
	// At is when it is looked whether the alert fires with the labels Want, the last
	// scrape of a quiet history.
	At   time.Duration
	Want []map[string]string
}

const (
	minute = time.Minute
	hour   = time.Hour
	day    = 24 * hour
)

// labels makes a set of labels of names and values.
func labels(pairs ...string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// blue is the series of metric at an instance of the job that the histories are about,
// with more labels as PromQL writes them.
func blue(metric, instance, more string) string {
	if more != "" {
		more = ", " + more
	}
	return metric + `{job="blue", instance="` + instance + `"` + more + `}`
}

// Alerts returns all of them.
func Alerts() []Alert {
	var out []Alert
	for _, group := range [][]Alert{leaseAlerts(), onionAlerts(), logAlerts(), hostAlerts(), gatewayAlerts(), storeAlerts()} {
		out = append(out, group...)
	}
	return out
}

func leaseAlerts() []Alert {
	job := []map[string]string{labels("job", "blue")}
	return []Alert{
		{
			Name: "SkeinNoHolder", Severity: critical, For: 30 * time.Second,
			Expr:    `max by (job) (skein_lease_holder) == 0`,
			Summary: "No host of {{ $labels.job }} holds the lease: no work is scheduled.",
			Fires: []History{{
				Name: "the holder stops and none follows", At: 2 * minute, Want: job,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""): "1x2 0x20",
					blue("skein_lease_holder", "n2", ""): "0x22",
				},
			}, {
				Name: "the holder is gone and none follows", At: 2 * minute, Want: job,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""): "1x2 stale",
					blue("skein_lease_holder", "n2", ""): "0x22",
				},
			}},
			Quiet: []History{{
				Name: "a hand-over of which a scrape sees neither side", At: 3 * minute,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""): "1x3 0x12",
					blue("skein_lease_holder", "n2", ""): "0x4 1x10",
				},
			}},
		},
		{
			// The others are silent where there is nothing to judge.
			Name: "SkeinNotScraped", Severity: critical, For: 2 * minute,
			Expr: `count by (job) (last_over_time(skein_lease_holder[1d])) unless on (job) count by (job) (skein_lease_holder) or ` +
				`label_replace(absent_over_time(skein_lease_holder[1d]), "job", "any cluster", "", "")`,
			Summary: "No host of {{ $labels.job }} is scraped: nobody knows whether it has a holder.",
			Fires: []History{{
				Name: "all hosts of a cluster are gone, those of another are not", At: 5 * minute, Want: job,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""):      "1x4 stale",
					blue("skein_lease_holder", "n2", ""):      "0x4 stale",
					`skein_lease_holder{job="red"}`:           "1x30",
					`up{job="blue", instance="no metric of"}`: "1x4 0x26",
				},
			}, {
				Name: "none was ever scraped", At: 5 * minute, Want: []map[string]string{labels("job", "any cluster")},
				Series: map[string]string{`up{job="something else"}`: "1x30"},
			}},
			Quiet: []History{{
				Name: "one host of two is gone", At: 10 * minute,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""): "1x4 stale",
					blue("skein_lease_holder", "n2", ""): "0x6 1x40",
				},
			}, {
				Name: "all are restarted at once", At: 10 * minute,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""): "1x4 stale _x4 0x40",
					blue("skein_lease_holder", "n2", ""): "0x4 stale _x4 0x1 1x40",
				},
			}},
		},
		{
			Name: "SkeinTwoHolders", Severity: critical, For: minute,
			Expr:    `count by (job) (skein_lease_holder == 1) > 1 unless on (job) max by (job) (skein_lease_mode{mode="available"}) == 1`,
			Summary: "More than one host of {{ $labels.job }} says that it holds the lease.",
			Fires: []History{{
				Name: "two hold for minutes", At: 3 * minute, Want: job,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""):                     "1x20",
					blue("skein_lease_holder", "n2", ""):                     "0x2 1x18",
					blue("skein_lease_mode", "n1", `mode="available"`):       "0x20",
					blue("skein_lease_mode", "n1", `mode="quorum"`):          "1x20",
					`skein_lease_mode{job="red", mode="available"}`:          "1x20",
					`skein_lease_holder{job="red", instance="other"}`:        "1x20",
					`skein_lease_holder{job="red", instance="still other"}`:  "0x20",
					`skein_lease_holder{job="red", instance="yet another"}`:  "0x20",
					`skein_lease_holder{job="green", instance="of its own"}`: "1x20",
				},
			}},
			Quiet: []History{{
				Name: "a hand-over between the scrapes of the two hosts", At: 3 * minute,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""):               "1x4 0x10",
					blue("skein_lease_holder", "n2", ""):               "0x3 1x11",
					blue("skein_lease_mode", "n1", `mode="available"`): "0x14",
				},
			}, {
				Name: "two hosts cut apart, each of which may go on alone", At: 5 * minute,
				Series: map[string]string{
					blue("skein_lease_holder", "n1", ""):               "1x20",
					blue("skein_lease_holder", "n2", ""):               "0x2 1x18",
					blue("skein_lease_mode", "n1", `mode="available"`): "1x20",
				},
			}},
		},
		{
			Name: "SkeinTermFlapping", Severity: warning,
			Expr:    `max by (job) (changes(skein_lease_term[15m])) > 4`,
			Summary: "The lease of {{ $labels.job }} changed hands more than four times in 15 minutes.",
			Fires: []History{{
				Name: "a new term every other minute", Step: minute, At: 14 * minute, Want: job,
				Series: map[string]string{blue("skein_lease_term", "n1", ""): "40x1 41x1 42x1 43x1 44x1 45x1 46x1"},
			}},
			Quiet: []History{{
				Name: "an upgrade of three hosts, one after the other", Step: minute, At: 30 * minute,
				Series: map[string]string{
					blue("skein_lease_term", "n1", ""): "40x5 _ 41x2 42x2 43x20",
					blue("skein_lease_term", "n2", ""): "40x5 41x2 _ 42x2 43x20",
				},
			}},
		},
	}
}

func onionAlerts() []Alert {
	return []Alert{
		{
			Name: "SkeinPublishStale", Severity: critical, For: 5 * minute,
			Expr:    `max by (job) (skein_onion_addresses) > 0 and on (job) time() - max by (job) (skein_onion_published_timestamp_seconds) > 3 * 3600`,
			Summary: "Clients found no new descriptor of {{ $labels.job }}'s onion addresses for three hours.",
			Fires: []History{{
				Name: "the last one is three and a half hours old", Step: 5 * minute, At: 220 * minute, Want: []map[string]string{labels("job", "blue")},
				Series: map[string]string{
					blue("skein_onion_addresses", "n1", ""):                   "1x60",
					blue("skein_onion_published_timestamp_seconds", "n1", ""): "600x60",
					blue("skein_onion_published_timestamp_seconds", "n2", ""): "0x60",
				},
			}},
			Quiet: []History{{
				Name: "another host goes on, four minutes late", Step: 2 * minute, At: 220 * minute,
				Series: map[string]string{
					blue("skein_onion_addresses", "n1", ""):                   "1x120",
					blue("skein_onion_published_timestamp_seconds", "n1", ""): "600x120",
					blue("skein_onion_published_timestamp_seconds", "n2", ""): "0x96 11640x24",
				},
			}, {
				Name: "there is no address", Step: 5 * minute, At: 200 * minute,
				Series: map[string]string{
					blue("skein_onion_addresses", "n1", ""):                   "0x60",
					blue("skein_onion_published_timestamp_seconds", "n1", ""): "0x60",
				},
			}},
		},
		{
			Name: "SkeinTargetDown", Severity: warning, For: 5 * minute,
			Expr:    `skein_onion_target_healthy == 0`,
			Summary: "No target of the onion addresses on {{ $labels.instance }} is healthy: its introduction points are left out.",
			Fires: []History{{
				Name: "the web server of one host is gone", Step: minute, At: 8 * minute, Want: []map[string]string{labels("job", "blue", "instance", "n1")},
				Series: map[string]string{
					blue("skein_onion_target_healthy", "n1", ""): "1 0x20",
					blue("skein_onion_target_healthy", "n2", ""): "1x20",
				},
			}},
			Quiet: []History{{
				Name: "it is started again", Step: minute, At: 20 * minute,
				Series: map[string]string{blue("skein_onion_target_healthy", "n1", ""): "1x3 0x3 1x20"},
			}},
		},
	}
}

func logAlerts() []Alert {
	n1 := []map[string]string{labels("job", "blue", "instance", "n1")}
	return []Alert{
		{
			Name: "SkeinLogDamaged", Severity: critical,
			Expr: `max by (job, instance) (skein_eventlog_poisoned > 0 or skein_eventlog_equivocations_total > 0 or ` +
				`skein_eventlog_snapshot_mismatches_total > 0) > 0`,
			Summary: "The event log of {{ $labels.instance }} cannot be written, has two histories of one source, or folds to another state than the voters.",
			Fires: []History{{
				Name: "a failed sync", At: minute, Want: n1,
				Series: map[string]string{
					blue("skein_eventlog_poisoned", "n1", ""):            "0x2 1x10",
					blue("skein_eventlog_poisoned", "n2", ""):            "0x12",
					blue("skein_eventlog_equivocations_total", "n1", ""): "0x12",
				},
			}, {
				Name: "a source with two histories", At: minute, Want: n1,
				Series: map[string]string{
					blue("skein_eventlog_poisoned", "n1", ""):            "0x12",
					blue("skein_eventlog_equivocations_total", "n1", ""): "0x2 1x10",
				},
			}, {
				Name: "a snapshot of another state", At: minute, Want: n1,
				Series: map[string]string{
					blue("skein_eventlog_poisoned", "n1", ""):                  "0x12",
					blue("skein_eventlog_snapshot_mismatches_total", "n1", ""): "0x2 1x10",
				},
			}},
			Quiet: []History{{
				Name: "a log that is whole, and a restart", At: 3 * minute,
				Series: map[string]string{
					blue("skein_eventlog_poisoned", "n1", ""):                  "0x4 stale _x2 0x10",
					blue("skein_eventlog_equivocations_total", "n1", ""):       "0x4 stale _x2 0x10",
					blue("skein_eventlog_snapshot_mismatches_total", "n1", ""): "0x4 stale _x2 0x10",
				},
			}},
		},
		{
			Name: "SkeinLogNotReplicated", Severity: warning, For: 2 * minute,
			Expr:    `skein_eventlog_peer_lag_events > 1000`,
			Summary: "{{ $labels.peer }} lacks more than 1,000 events of {{ $labels.instance }}: what is acknowledged rests on fewer voters.",
			Fires: []History{{
				Name: "a voter takes nothing", At: 5 * minute, Want: []map[string]string{labels("job", "blue", "instance", "n1", "peer", "n3")},
				Series: map[string]string{
					blue("skein_eventlog_peer_lag_events", "n1", `peer="n2"`): "10x30",
					blue("skein_eventlog_peer_lag_events", "n1", `peer="n3"`): "0+400x30",
				},
			}},
			Quiet: []History{{
				Name: "a burst that is caught up with", At: 5 * minute,
				Series: map[string]string{blue("skein_eventlog_peer_lag_events", "n1", `peer="n3"`): "0x3 9000x4 10x20"},
			}},
		},
		{
			Name: "SkeinDiskLow", Severity: warning, For: minute,
			Expr:    `max by (job, instance) (skein_eventlog_disk_state{state!="ok"}) == 1`,
			Summary: "The disk of the event log on {{ $labels.instance }} is low, full or out.",
			Fires: []History{{
				Name: "it fills up", At: 3 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_eventlog_disk_state", "n1", `state="ok"`):   "1x4 0x10",
					blue("skein_eventlog_disk_state", "n1", `state="low"`):  "0x4 1x2 0x8",
					blue("skein_eventlog_disk_state", "n1", `state="full"`): "0x6 1x8",
				},
			}},
			Quiet: []History{{
				Name: "room is made at once", At: 3 * minute,
				Series: map[string]string{
					blue("skein_eventlog_disk_state", "n1", `state="ok"`):  "1x4 0x2 1x8",
					blue("skein_eventlog_disk_state", "n1", `state="low"`): "0x4 1x2 0x8",
				},
			}},
		},
		{
			Name: "SkeinFsyncSlow", Severity: warning, For: 5 * minute,
			Expr:    `histogram_quantile(0.99, sum by (job, instance, le) (rate(skein_eventlog_fsync_duration_seconds_bucket[5m]))) > 0.1`,
			Summary: "One in a hundred syncs of the event log on {{ $labels.instance }} takes more than 100 ms.",
			Fires: []History{{
				Name: "every tenth sync takes half a second", Step: minute, At: 15 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_eventlog_fsync_duration_seconds_bucket", "n1", `le="0.1"`):  "0+90x20",
					blue("skein_eventlog_fsync_duration_seconds_bucket", "n1", `le="0.5"`):  "0+100x20",
					blue("skein_eventlog_fsync_duration_seconds_bucket", "n1", `le="+Inf"`): "0+100x20",
				},
			}},
			Quiet: []History{{
				Name: "one minute of a busy disk", Step: minute, At: 20 * minute,
				Series: map[string]string{
					blue("skein_eventlog_fsync_duration_seconds_bucket", "n1", `le="0.1"`):  "0+100x5 590+100x20",
					blue("skein_eventlog_fsync_duration_seconds_bucket", "n1", `le="0.5"`):  "0+100x5 600+100x20",
					blue("skein_eventlog_fsync_duration_seconds_bucket", "n1", `le="+Inf"`): "0+100x5 600+100x20",
				},
			}},
		},
	}
}

func hostAlerts() []Alert {
	job := []map[string]string{labels("job", "blue")}
	return []Alert{
		{
			Name: "SkeinMemberSuspect", Severity: warning, For: 5 * minute,
			Expr:    `max by (job) (sum by (job, instance) (skein_coord_peers{health=~"suspect|dead"})) > 0`,
			Summary: "A member of {{ $labels.job }} is suspect or dead.",
			Fires: []History{{
				Name: "a host is lost", Step: minute, At: 8 * minute, Want: job,
				Series: map[string]string{
					blue("skein_coord_peers", "n1", `health="alive"`):   "2x1 1x20",
					blue("skein_coord_peers", "n1", `health="suspect"`): "0x1 1x1 0x20",
					blue("skein_coord_peers", "n1", `health="dead"`):    "0x3 1x20",
				},
			}},
			Quiet: []History{{
				Name: "a host starts again", Step: minute, At: 15 * minute,
				Series: map[string]string{
					blue("skein_coord_peers", "n1", `health="suspect"`): "0x2 1x1 0x20",
					blue("skein_coord_peers", "n1", `health="dead"`):    "0x4 1x1 0x20",
				},
			}},
		},
		{
			Name: "SkeinOverloaded", Severity: warning, For: 5 * minute,
			Expr:    `skein_overload_level >= 2`,
			Summary: "{{ $labels.instance }} is overloaded: it takes no new chunks and refuses part of what it is asked.",
			Fires: []History{{
				Name: "one host is", Step: 30 * time.Second, At: 8 * minute, Want: []map[string]string{labels("job", "blue", "instance", "n1")},
				Series: map[string]string{
					blue("skein_overload_level", "n1", ""): "0x2 1 2 3x20",
					blue("skein_overload_level", "n2", ""): "1x30",
				},
			}},
			Quiet: []History{{
				Name: "a burst of work that it gets over", Step: 30 * time.Second, At: 15 * minute,
				Series: map[string]string{blue("skein_overload_level", "n1", ""): "0x2 2x7 1x2 0x30"},
			}},
		},
		{
			Name: "SkeinRefusing", Severity: warning, For: 5 * minute,
			Expr:    `sum by (job, instance, lane) (rate(skein_overload_refused_total{reason="places"}[5m])) > 0.1`,
			Summary: "{{ $labels.instance }} refuses requests of kind {{ $labels.lane }}: more are asked at once than it can do.",
			Fires: []History{{
				Name: "more is submitted than the holder can do", Step: minute, At: 15 * minute, Want: []map[string]string{labels("job", "blue", "instance", "n1", "lane", "submit")},
				Series: map[string]string{
					blue("skein_overload_refused_total", "n1", `lane="submit",reason="places"`): "0x2 0+60x20",
					blue("skein_overload_refused_total", "n1", `lane="list",reason="level"`):    "0+60x22",
					blue("skein_overload_refused_total", "n2", `lane="submit",reason="places"`): "0x22",
				},
			}},
			Quiet: []History{{
				Name: "a burst whose senders come again later", Step: minute, At: 20 * minute,
				Series: map[string]string{blue("skein_overload_refused_total", "n1", `lane="submit",reason="places"`): "0x5 20 40x20"},
			}},
		},
		{
			Name: "SkeinZoneUnhealthy", Severity: warning, For: 2 * minute,
			Expr:    `skein_zone_health >= 3`,
			Summary: "{{ $labels.instance }} finds zone {{ $labels.zone }} degraded or unhealthy.",
			Fires: []History{{
				Name: "the hosts of one are gone", At: 4 * minute, Want: []map[string]string{labels("job", "blue", "instance", "n1", "zone", "fra")},
				Series: map[string]string{
					blue("skein_zone_health", "n1", `zone="fra"`): "1x2 4x20",
					blue("skein_zone_health", "n1", `zone="ams"`): "1x22",
				},
			}},
			Quiet: []History{{
				Name: "one is full, and another has hosts that start again", At: 8 * minute,
				Series: map[string]string{
					blue("skein_zone_health", "n1", `zone="fra"`): "1x2 2x30",
					blue("skein_zone_health", "n1", `zone="ams"`): "1x2 3x5 1x25",
				},
			}},
		},
		{
			Name: "SkeinClockOffset", Severity: warning, For: 2 * minute,
			Expr:    `count by (job, peer) (abs(skein_clock_offset_seconds) > 1) > 0.5 * count by (job, peer) (skein_clock_offset_seconds)`,
			Summary: "Most hosts of {{ $labels.job }} find the clock of {{ $labels.peer }} off by more than a second.",
			Fires: []History{{
				Name: "one clock of three is wrong, and finds the others so", At: 4 * minute, Want: []map[string]string{labels("job", "blue", "peer", "n3")},
				Series: map[string]string{
					blue("skein_clock_offset_seconds", "n1", `peer="n2"`): "0x20",
					blue("skein_clock_offset_seconds", "n1", `peer="n3"`): "-4x20",
					blue("skein_clock_offset_seconds", "n2", `peer="n1"`): "0x20",
					blue("skein_clock_offset_seconds", "n2", `peer="n3"`): "-4x20",
					blue("skein_clock_offset_seconds", "n3", `peer="n1"`): "4x20",
					blue("skein_clock_offset_seconds", "n3", `peer="n2"`): "4x20",
				},
			}},
			Quiet: []History{{
				Name: "a clock that is set right", At: 5 * minute,
				Series: map[string]string{
					blue("skein_clock_offset_seconds", "n1", `peer="n2"`): "0x3 2x4 0x20",
					blue("skein_clock_offset_seconds", "n2", `peer="n1"`): "0x3 -2x4 0x20",
				},
			}},
		},
		{
			Name: "SkeinJobWaiting", Severity: warning, For: 5 * minute,
			Expr:    `max by (job) (skein_job_queue_oldest_seconds) > 600`,
			Summary: "A job of {{ $labels.job }} has waited more than 10 minutes for its first chunk to be assigned.",
			Fires: []History{{
				Name: "no worker may run it", Step: minute, At: 20 * minute, Want: job,
				Series: map[string]string{
					blue("skein_job_queue_oldest_seconds", "n1", ""): "0+60x30",
					blue("skein_job_queue_oldest_seconds", "n2", ""): "0x30",
				},
			}},
			Quiet: []History{{
				Name: "a full cluster gets to it", Step: minute, At: 30 * minute,
				Series: map[string]string{blue("skein_job_queue_oldest_seconds", "n1", ""): "0+60x13 0x20"},
			}},
		},
		{
			Name: "SkeinCertExpiring", Severity: warning, For: 5 * minute,
			Expr:    `skein_member_cert_expiry_timestamp_seconds - time() < 3 * 86400`,
			Summary: "The certificate of {{ $labels.instance }} ends within three days, and no sponsor has renewed it.",
			Fires: []History{{
				Name: "two days are left", Step: minute, At: 10 * minute, Want: []map[string]string{labels("job", "blue", "instance", "n1")},
				Series: map[string]string{
					blue("skein_member_cert_expiry_timestamp_seconds", "n1", ""): "172800x20",
					blue("skein_member_cert_expiry_timestamp_seconds", "n2", ""): "2000000x20",
				},
			}},
			Quiet: []History{{
				Name: "it is renewed", Step: minute, At: 20 * minute,
				Series: map[string]string{blue("skein_member_cert_expiry_timestamp_seconds", "n1", ""): "259300x4 2000000x20"},
			}},
		},
		{
			Name: "SkeinVersionSkew", Severity: warning, For: day,
			Expr:    `count by (job) (count by (job, version) (skein_build_info)) > 1`,
			Summary: "Hosts of {{ $labels.job }} have run different versions for a day.",
			Fires: []History{{
				Name: "a host was forgotten", Step: 5 * minute, At: 25 * hour, Want: job,
				Series: map[string]string{
					blue("skein_build_info", "n1", `version="1.2.0", goversion="go1.26"`): "1x310",
					blue("skein_build_info", "n2", `version="1.1.0", goversion="go1.26"`): "1x310",
				},
			}},
			Quiet: []History{{
				Name: "an upgrade that takes a working day", Step: 5 * minute, At: 10 * hour,
				Series: map[string]string{
					blue("skein_build_info", "n1", `version="1.2.0", goversion="go1.26"`): "1x130",
					blue("skein_build_info", "n2", `version="1.1.0", goversion="go1.26"`): "1x96 stale",
					blue("skein_build_info", "n2", `version="1.2.0", goversion="go1.26"`): "_x97 1x40",
				},
			}},
		},
	}
}

func gatewayAlerts() []Alert {
	job := []map[string]string{labels("job", "blue")}
	n1 := []map[string]string{labels("job", "blue", "instance", "n1")}
	return []Alert{
		{
			Name: "SkeinGatewayClosed", Severity: warning, For: 5 * minute,
			Expr:    `skein_gateway_ready == 0`,
			Summary: "The gateway on {{ $labels.instance }} lets no outside worker in.",
			Fires: []History{{
				Name: "another was started at its URL", Step: minute, At: 8 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_gateway_ready", "n1", ""): "1x1 0x20",
					blue("skein_gateway_ready", "n2", ""): "1x21",
				},
			}},
			Quiet: []History{{
				Name: "it starts, and waits for a holder that logs its key", Step: minute, At: 20 * minute,
				Series: map[string]string{
					blue("skein_gateway_ready", "n1", ""): "1x3 stale 0x3 1x20",
					blue("skein_gateway_ready", "n2", ""): "1x30",
				},
			}},
		},
		{
			// Three quarters of gateway.desk's bound, at which it refuses results.
			Name: "SkeinGatewayResultsWait", Severity: warning, For: 2 * minute,
			Expr:    `skein_gateway_results_bytes > 48 * 1024 * 1024`,
			Summary: "More than 48 MiB of results wait at the gateway on {{ $labels.instance }}, which refuses more than 64: the holder does not take them.",
			Fires: []History{{
				Name: "nobody settles results", At: 6 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_gateway_results_bytes", "n1", ""): "0+5000000x12 62000000x30",
					blue("skein_gateway_results_bytes", "n2", ""): "1000000x42",
				},
			}},
			Quiet: []History{{
				Name: "a minute without a holder", At: 8 * minute,
				Series: map[string]string{blue("skein_gateway_results_bytes", "n1", ""): "1000000x4 0+14000000x4 55000000x3 0x30"},
			}},
		},
		{
			Name: "SkeinGatewayRefusals", Severity: warning, For: 10 * minute,
			Expr:    `sum by (job) (rate(skein_gateway_auth_failures_total[5m])) > 1`,
			Summary: "The gateways of {{ $labels.job }} refuse more than one proof, token or claim code a second.",
			Fires: []History{{
				Name: "somebody guesses at two gateways", Step: minute, At: 20 * minute, Want: job,
				Series: map[string]string{
					blue("skein_gateway_auth_failures_total", "n1", ""): "0x3 0+60x30",
					blue("skein_gateway_auth_failures_total", "n2", ""): "0x3 0+50x30",
				},
			}},
			Quiet: []History{{
				Name: "a school's computers come back with the wrong time", Step: minute, At: 30 * minute,
				Series: map[string]string{blue("skein_gateway_auth_failures_total", "n1", ""): "0x3 0+200x5 1000x30"},
			}},
		},
		{
			Name: "SkeinOutsideDistrusted", Severity: warning,
			Expr:    `sum by (job) (increase(skein_outside_drops_total{reason="distrusted"}[1h])) > 2`,
			Summary: "Holders of {{ $labels.job }} have shut out more than two outside workers within an hour, whose results others contradicted.",
			Fires: []History{{
				Name: "many keys of somebody who lies", Step: minute, At: 30 * minute, Want: job,
				Series: map[string]string{
					blue("skein_outside_drops_total", "n1", `reason="distrusted"`): "0x5 0+1x30",
					blue("skein_outside_drops_total", "n1", `reason="replaced"`):   "0+1x35",
					blue("skein_outside_drops_total", "n2", `reason="distrusted"`): "0x35",
				},
			}},
			Quiet: []History{{
				Name: "one broken computer, and many that move", Step: minute, At: 60 * minute,
				Series: map[string]string{
					blue("skein_outside_drops_total", "n1", `reason="distrusted"`): "0x5 1x60",
					blue("skein_outside_drops_total", "n1", `reason="replaced"`):   "0+4x65",
				},
			}},
		},
	}
}

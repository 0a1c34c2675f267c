package observability

// storeAlerts are of the servers of others that a cluster uses.
func storeAlerts() []Alert {
	n1 := []map[string]string{labels("job", "blue", "instance", "n1")}
	job := []map[string]string{labels("job", "blue")}
	return []Alert{
		{
			Name: "SkeinRedisDown", Severity: critical, For: 2 * minute,
			Expr:    `max by (job) (skein_redis_up) == 0`,
			Summary: "No host of {{ $labels.job }} is served by the Redis of outside workers: they get no work, and keep what they have done.",
			Fires: []History{{
				Name: "Redis is gone", At: 6 * minute, Want: job,
				Series: map[string]string{
					blue("skein_redis_up", "n1", ""): "1x2 0x30",
					blue("skein_redis_up", "n2", ""): "1x3 0x30",
				},
			}},
			Quiet: []History{{
				Name: "it is started again, and one host is cut off from it", At: 10 * minute,
				Series: map[string]string{
					blue("skein_redis_up", "n1", ""): "1x4 0x4 1x40",
					blue("skein_redis_up", "n2", ""): "1x4 0x50",
				},
			}},
		},
		{
			Name: "SkeinRedisUnreached", Severity: warning, For: 5 * minute,
			Expr:    `skein_redis_up == 0 unless on (job) max by (job) (skein_redis_up) == 0`,
			Summary: "{{ $labels.instance }} is not served by the Redis of outside workers, which serves others.",
			Fires: []History{{
				Name: "one host has another password", Step: minute, At: 10 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_redis_up", "n1", ""): "1x2 0x30",
					blue("skein_redis_up", "n2", ""): "1x32",
				},
			}},
			Quiet: []History{{
				Name: "the network of one host is mended", Step: minute, At: 20 * minute,
				Series: map[string]string{
					blue("skein_redis_up", "n1", ""): "1x2 0x3 1x30",
					blue("skein_redis_up", "n2", ""): "1x36",
				},
			}, {
				Name: "it is gone for all, of which another alert tells", Step: minute, At: 20 * minute,
				Series: map[string]string{
					blue("skein_redis_up", "n1", ""): "1x4 0x30",
					blue("skein_redis_up", "n2", ""): "1x4 0x30",
				},
			}},
		},
		{
			Name: "SkeinCentrifugoDown", Severity: warning, For: 5 * minute,
			Expr:    `skein_centrifugo_up == 0`,
			Summary: "The Centrifugo of outside workers does not serve {{ $labels.instance }}: workers come by HTTP, every 10 s.",
			Fires: []History{{
				Name: "it was started with another key", Step: minute, At: 10 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_centrifugo_up", "n1", ""): "1x2 0x30",
					blue("skein_centrifugo_up", "n2", ""): "1x32",
				},
			}},
			Quiet: []History{{
				Name: "it is upgraded", Step: minute, At: 20 * minute,
				Series: map[string]string{blue("skein_centrifugo_up", "n1", ""): "1x4 0x3 1x30"},
			}},
		},
		{
			Name: "SkeinCentrifugoDrops", Severity: warning, For: 5 * minute,
			Expr:    `sum by (job, instance) (rate(skein_centrifugo_pushes_total{outcome!="delivered"}[5m])) > 0.1 and on (job, instance) skein_centrifugo_up == 1`,
			Summary: "Centrifugo serves {{ $labels.instance }} and does not take all that workers are to be told: it refuses it, or is too slow.",
			Fires: []History{{
				Name: "it is too slow, and another gateway's is not", Step: minute, At: 15 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_centrifugo_up", "n1", ""):                              "1x40",
					blue("skein_centrifugo_up", "n2", ""):                              "1x40",
					blue("skein_centrifugo_pushes_total", "n1", `outcome="delivered"`): "0+600x40",
					blue("skein_centrifugo_pushes_total", "n1", `outcome="late"`):      "0+60x40",
					blue("skein_centrifugo_pushes_total", "n2", `outcome="delivered"`): "0+600x40",
					blue("skein_centrifugo_pushes_total", "n2", `outcome="late"`):      "0x40",
				},
			}},
			Quiet: []History{{
				Name: "it is away, of which another alert tells", Step: minute, At: 15 * minute,
				Series: map[string]string{
					blue("skein_centrifugo_up", "n1", ""):                              "1x2 0x40",
					blue("skein_centrifugo_pushes_total", "n1", `outcome="delivered"`): "0+600x2 1200x40",
					blue("skein_centrifugo_pushes_total", "n1", `outcome="late"`):      "0x2 0+600x40",
				},
			}, {
				Name: "a restart in which some of it is late", Step: minute, At: 30 * minute,
				Series: map[string]string{
					blue("skein_centrifugo_up", "n1", ""):                              "1x40",
					blue("skein_centrifugo_pushes_total", "n1", `outcome="delivered"`): "0+600x40",
					blue("skein_centrifugo_pushes_total", "n1", `outcome="late"`):      "0x4 900x40",
				},
			}},
		},
		{
			Name: "SkeinCentrifugoSecret", Severity: warning, For: 10 * minute,
			Expr:    `sum by (job, instance) (rate(skein_centrifugo_asked_total{outcome="unauthorized"}[5m])) > 0`,
			Summary: "Somebody asks {{ $labels.instance }} at gateway.internal_listen without the secret of Centrifugo: workers that come by it get nothing.",
			Fires: []History{{
				Name: "the secret was changed here alone", Step: minute, At: 20 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_centrifugo_asked_total", "n1", `proxy="rpc", outcome="unauthorized"`): "0x2 0+30x40",
					blue("skein_centrifugo_asked_total", "n1", `proxy="rpc", outcome="answered"`):     "0+30x2 60x40",
					blue("skein_centrifugo_asked_total", "n2", `proxy="rpc", outcome="answered"`):     "0+30x42",
				},
			}},
			Quiet: []History{{
				Name: "somebody looks once", Step: minute, At: 20 * minute,
				Series: map[string]string{
					blue("skein_centrifugo_asked_total", "n1", `proxy="connect", outcome="unauthorized"`): "0x5 1x40",
				},
			}},
		},
		{
			Name: "SkeinPostgresDown", Severity: warning, For: 5 * minute,
			Expr:    `max by (job) (skein_postgres_serving) == 0`,
			Summary: "The holder of {{ $labels.job }} is not served by the database of jobs: rows wait, and ends stay in the log.",
			Fires: []History{{
				Name: "the database is gone", Step: minute, At: 10 * minute, Want: job,
				Series: map[string]string{
					blue("skein_postgres_serving", "n1", ""): "1x2 0x30",
					blue("skein_postgres_serving", "n2", ""): "0x32",
				},
			}},
			Quiet: []History{{
				Name: "another host holds", Step: minute, At: 20 * minute,
				Series: map[string]string{
					blue("skein_postgres_serving", "n1", ""): "1x4 0x30",
					blue("skein_postgres_serving", "n2", ""): "0x6 1x30",
				},
			}},
		},
		{
			Name: "SkeinTableDiffers", Severity: critical,
			Expr:    `increase(skein_postgres_differing_results_total[1h]) > 0`,
			Summary: "The table of jobs has another result than the log: {{ $labels.instance }} found that somebody else wrote it.",
			Fires: []History{{
				Name: "somebody wrote a result", Step: minute, At: 10 * minute, Want: n1,
				Series: map[string]string{
					blue("skein_postgres_differing_results_total", "n1", ""): "0x5 1x30",
					blue("skein_postgres_differing_results_total", "n2", ""): "0x35",
				},
			}},
			Quiet: []History{{
				Name: "a holder dies and another one begins", Step: minute, At: 20 * minute,
				Series: map[string]string{
					blue("skein_postgres_differing_results_total", "n1", ""): "0x5 stale _x3 0x30",
					blue("skein_postgres_differing_results_total", "n2", ""): "0x38",
				},
			}},
		},
	}
}

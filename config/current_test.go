package config

import (
	"reflect"
	"testing"
)

// TestKeysLieWhereTheySay changes each key and looks which half of Config
// changed: a key is live if and only if it lies in Live.
func TestKeysLieWhereTheySay(t *testing.T) {
	// Keys whose text form takes no number and no plain word.
	samples := map[string]string{
		"state_dir": "/x", "mesh.listen": "127.0.0.1:1", "mesh.advertise": "192.0.2.1:1", "mesh.names_file": "/x",
		"mesh.peers": "n9=192.0.2.1:1", "mesh.backend": "tun", "join.listen": "127.0.0.1:1", "join.discover": "dns:x",
		"lease.profile": "fast", "lease.mode": "quorum", "log.level": "warn", "log.format": "json", "eventlog.archive_dir": "/x",
		"worker.accept": "owner", "jobs.log_starts": "never", "jobs.groups_url": "https://x/", "jobs.groups_credential": "/x", "status.socket": "/x", "status.listen": "127.0.0.1:1", "api.listen": "127.0.0.1:1", "api.tls_cert": "/x", "api.tls_key": "/x", "api.bearer": "all", "api.origins": "https://x", "api.names": "x", "gateway.listen": "127.0.0.1:1", "gateway.url": "https://x", "gateway.tls_cert": "/x", "gateway.tls_key": "/x", "gateway.trusted_proxies": "10.0.0.1", "gateway.allowed_origins": "https://x", "gateway.store": "redis", "gateway.push": "centrifugo", "gateway.internal_listen": "127.0.0.1:1", "centrifugo.api_url": "http://x/a", "centrifugo.ws_url": "ws://x/a", "centrifugo.api_key_file": "/x", "centrifugo.secret_file": "/x", "redis.addresses": "x:1", "redis.password_file": "/x", "redis.tls_ca": "/x", "postgres.dsn_file": "/x", "jobs.groups_file": "/x", "exec.cgroup": "/x", "exec.scratch_dir": "/x",
		"exec.programs": "p=/x", "tor.program": "/x", "tor.cookie": "/x", "onion.mode": "tcp", "onion.operators": "a=" + operatorKey(1), "onion.check_path": "/x", "onion.check_status": "200",
		"onion.single_host": "false", "overload.enabled": "false", "mesh.probe_mtu": "false", "lease.eligible": "false", "mesh.mtu": "1300", "jobs.log_days": "8",
		"load.owners": "user:ann", "load.targets": "x:80=1/ramp=2/proof", "load.user": "nobody", "load.secrets_dir": "/x",
	}
	live := 0
	for _, k := range keys() {
		changed := Default()
		for _, text := range []string{samples[k.name], "7", "true", "word", "70000", "70000000"} {
			v, err := k.parse(text)
			if err != nil || k.set(&changed, v) != nil {
				continue
			}
			if !reflect.DeepEqual(changed, Default()) {
				break
			}
		}
		inFixed := !reflect.DeepEqual(changed.Fixed, Default().Fixed)
		inLive := !reflect.DeepEqual(changed.Live, Default().Live)
		if inFixed == inLive || inLive != k.live {
			t.Errorf("%s: live %v, but a change of it shows in Live: %v, in Fixed: %v", k.name, k.live, inLive, inFixed)
		}
		if k.live {
			live++
		}
	}
	if n := reflect.TypeFor[Live]().NumField() - 1 + reflect.TypeFor[LoadTests]().NumField(); n != live {
		t.Errorf("Live has %d fields, but %d keys are live", n, live)
	}
}

func TestCurrent(t *testing.T) {
	first := Default()
	c := NewCurrent(first)
	next := Default()
	next.Live.Priority, next.Live.Zone, next.StateDir = 7, "b", "/elsewhere"
	live, restart := c.Compare(next)
	if len(live) != 2 || live[0].Key != "node.zone" || len(restart) != 1 || restart[0].Key != "state_dir" {
		t.Fatalf("%v, %v", live, restart)
	}
	c.Replace(next)
	if c.Live().Priority != 7 {
		t.Fatalf("%+v", c.Live())
	}
	for _, e := range c.Show() {
		switch {
		case e.Key == "state_dir" && e.Value != quote(first.StateDir), e.Key == "node.zone" && e.Value != `"b"`:
			t.Errorf("%s = %s", e.Key, e.Value)
		}
	}
	// A key that needs a restart is still waiting for it, a live one is not.
	if live, restart = c.Compare(next); len(live) != 0 || len(restart) != 1 {
		t.Fatalf("%v, %v", live, restart)
	}
}

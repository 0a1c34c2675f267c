package redis

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/require"
)

// mutants are checks of the scripts that are taken out, each of which a case of the suite
// must notice.
var mutants = []struct{ script, old, new string }{
	{"prelude", "if less(f[1], term) then return {'AHEAD', f[1]} end", ""},
	{"prelude", "if less(term, f[1]) then return {'STALE_TERM', f[1]} end", ""},
	{"prelude", "if f[2] ~= holder then return {'STALE_TERM', f[1]} end", ""},
	{"prelude", "if #a ~= #b then return #a < #b end", ""},
	{"prelude", "if not w[2] then return {'UNKNOWN'} end", ""},
	{"prelude", "if w[2] ~= s then return {'REPLACED', w[2]} end", ""},
	{"prelude", "if w[1] ~= '1' then return {'UNKNOWN'} end", ""},
	{"prelude", "if w[1] ~= '1' then return end", ""},
	{"prelude", "redis.call('DECRBY', BYTES, n)", ""},
	{"prelude", "if redis.call('HLEN', results(id)) > 0 then keep = KEEP end", "keep = 0"},
	{"prelude", "if string.sub(gateway, 1, 1) == '?' then", "if false then"},
	{"prelude", "redis.call('HSETNX', worker(id), 'gateway', string.sub(gateway, 2))", ""},
	{"raise", "if f[1] and (less(term, f[1]) or term == f[1] and holder ~= f[2]) then return {'STALE_TERM', f[1]} end", ""},
	{"raise", "or term == f[1] and holder ~= f[2]", ""},
	{"assign", "if done then", "if false then"},
	{"assign", "if string.sub(v, 1, 1) == 'c' then", "if false then"},
	{"assign", "elseif not again then", "else"},
	{"assign", "if redis.call('HLEN', has(id)) >= MAXREFS then", "if false then"},
	{"assign", "if redis.call('EXISTS', worker(id)) == 0 then return {'GONE'} end", ""},
	{"cancel", "local all = #ARGV < 6", "local all = false"},
	{"cancel", "local all = #ARGV < 6", "local all = true"},
	{"cancel", "lose(id, ref)", ""},
	{"settle", "lose(id, ARGV[i])", ""},
	{"settle", "remove(id, ARGV[i])", ""},
	{"drop", "if less(s, has) then return {'OK'} end", ""},
	{"drop", "if not has then return {'GONE'} end", ""},
	{"attach", "if not less(known, s) then return {'REPLACED', known} end", ""},
	{"attach", "over(id, 'replaced')", ""},
	{"attach", "if redis.call('HLEN', has(id)) >= MAXREFS then stop[#stop + 1] = ref else add(id, ref, 'c') end", "add(id, ref, 'c')"},
	{"attach", "redis.call('HEXISTS', has(id), ref) == 0 and redis.call('HEXISTS', results(id), ref) == 0", "true"},
	{"beat", "if not named[ref] then\n    named[ref] = true", "if true then\n    named[ref] = true"},
	{"beat", "done = highest(done, string.match(v, '%d+$'))", ""},
	{"beat", "elseif redis.call('HEXISTS', results(id), ref) == 0 then", "else"},
	{"beat", "if tonumber(missed) < 1 then", "if false then"},
	{"beat", "elseif kind == 'c' then", "elseif false then"},
	{"complete", "if all + more > limit or own + more > limit / 4 then return {'BUSY'} end", ""},
	{"complete", "or own + more > limit / 4", ""},
	{"complete", "all + more > limit or", ""},
	{"complete", "if redis.call('HEXISTS', results(id), ref) == 1 then", "if false then"},
	{"complete", "elseif redis.call('HEXISTS', has(id), ref) == 0 then", "elseif false then"},
	{"complete", "remove(id, ref)", ""},
	{"tick", "if w[1] == '1' then", "if false then"},
	{"bye", "if gone then\n", "if false then\n"},
	{"rate", "if at > full then return at - full end", ""},
	{"rate", "if not look then", "if true then"},
	{"rate", "if not look then", "if false then"},
	{"rate", "math.min(math.max(tonumber(redis.call('GET', key) or '0'), now), full)", "math.max(tonumber(redis.call('GET', key) or '0'), now)"},
	{"rate", "math.max(tonumber(redis.call('GET', key) or '0'), now)", "tonumber(redis.call('GET', key) or '0')"},
	{"rate", ", 'PX', math.ceil((at - now) / 1000)", ""},
	{"count", "if wait then return {'LATE', (i + 2) / 4, wait} end", ""},
	{"count", "ARGV[i] == 'look'", "false"},
	{"count", "{'LATE', (i + 2) / 4, wait}", "{'LATE', 1, wait}"},
	{"nonce", "if since[1] ~= run then", "if not since[1] then"},
	{"first", "'run', run,", "'run', '',"},
	{"nonce", "now() + tonumber(ARGV[5])", "now()"},
	{"nonce", "if early > 0 then return {'EARLY', early} end", ""},
	{"nonce", ", 'NX'", ""},
	{"nonce", ", 'PX', ARGV[6]", ""},
	{"nonce", "redis.call('HSET', P .. 'since', 'run', run, 'at', since[2])", ""},
	{"first", "if redis.call('EXISTS', P .. 'since') == 0 then", "do"},
	{"open", "redis.call('ZREMRANGEBYSCORE', P .. 'claims', '-inf', now())", ""},
	{"open", "if ARGV[8] == '1' then return {'HAS'} end", ""},
	{"open", "others = others - 1", ""},
	{"open", "if others >= tonumber(ARGV[7]) then return {'BUSY'} end", ""},
	{"open", "redis.call('DEL', P .. 'claim:' .. old)", ""},
	{"open", "redis.call('ZREM', P .. 'claims', old)", ""},
	{"open", "redis.call('PEXPIRE', P .. 'claim:' .. code, life)", ""},
	{"open", "redis.call('PEXPIRE', P .. 'claimof:' .. id, life)", ""},
	{"claim", "if wait then return {'LATE', 1, wait} end", ""},
	{"claim", "  late(false, ARGV[3], ARGV[4], ARGV[5])\n", ""},
	{"claim", "redis.call('DEL', key, P .. 'claimof:' .. c[1])", ""},
	{"claim", "redis.call('DEL', key, P .. 'claimof:' .. c[1])", "redis.call('DEL', key)"},
	{"claim", "redis.call('ZREM', P .. 'claims', ARGV[2])", ""},
	{"bye", "if gone and redis.call('HLEN', results(id)) == 0 then forget(id) end", "if gone then forget(id) end"},
}

// lua reads the scripts as they are, or with the mutant that the environment names; quickly
// (SKEIN_QUICK) times are short.
func lua(t *testing.T) func(string) ([]byte, error) {
	t.Helper()
	name, at := os.Getenv("SKEIN_MUTANT"), -1
	if name != "" {
		if _, err := fmt.Sscan(name, &at); err != nil || at < 0 || at >= len(mutants) {
			t.Fatalf("no mutant %q", name)
		}
	}
	return func(file string) ([]byte, error) {
		bytes, err := texts.ReadFile(file)
		text := string(bytes)
		if os.Getenv("SKEIN_QUICK") != "" {
			text = strings.Replace(text, "256, 120000, 120000, 600000", "256, 100, 100, 6000", 1)
		}
		if at >= 0 && file == "scripts/"+mutants[at].script+".lua" {
			text = strings.Replace(text, mutants[at].old, mutants[at].new, 1)
		}
		return []byte(text), err
	}
}

// TestMutants: the suite fails if a check of a script is taken out. SKEIN_PROVE=1 tries all
// of them, otherwise some.
func TestMutants(t *testing.T) {
	require.Need(t, require.Redis)
	if os.Getenv("SKEIN_MUTANT") != "" {
		t.Skip("this is one")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mutants {
		text, err := texts.ReadFile("scripts/" + m.script + ".lua")
		if err != nil || strings.Count(string(text), m.old) != 1 {
			t.Fatalf("%s has %q %d times: %v", m.script, m.old, strings.Count(string(text), m.old), err)
		}
		if os.Getenv("SKEIN_PROVE") == "" && i%13 != 0 {
			continue
		}
		tests := "^(TestSuite|TestOutages|TestSilence|TestElsewhere)$"
		if slices.Contains([]string{"rate", "count", "nonce", "first", "open", "claim"}, m.script) {
			tests = "^TestGuard"
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run", tests, "-test.failfast", "-test.timeout", "5m")
		cmd.Env = append(os.Environ(), fmt.Sprint("SKEIN_MUTANT=", i), "SKEIN_MUTANT_PATIENCE=2s")
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "--- FAIL: Test") {
			t.Errorf("nobody notices that %s lacks %q: %v", m.script, m.old, err)
		}
	}
}

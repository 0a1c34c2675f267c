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
	{"fence", "if fence[1] ~= ARGV[2] then", "if #fence[1] > #ARGV[2] or #fence[1] == #ARGV[2] and fence[1] > ARGV[2] then"}, // no AHEAD
	{"fence", "\n  return {'STALE_TERM', fence[1]}", ""},
	{"fence", "if fence[2] ~= ARGV[3] then return {'STALE_TERM', fence[1]} end", ""},
	{"session", "if not w[2] then return {'UNKNOWN'} end", ""},
	{"session", "if w[2] ~= ARGV[3] then return {'REPLACED', w[2]} end", ""},
	{"session", "if w[1] ~= '1' then return {'UNKNOWN'} end", ""},
	{"prelude", "if #a ~= #b then return #a < #b end", ""},
	{"prelude", "if w[1] ~= '1' then return end", ""},
	{"prelude", "redis.call('DECRBY', BYTES, bytes)", ""},
	{"prelude", "if redis.call('HLEN', RESULTS) > 0 then keep = KEEP end", "keep = 0"},
	{"prelude", "if string.sub(is[i], 1, 1) == 'a' then\n        local", "if true then\n        local"},
	{"prelude", "if redis.call('HINCRBY', REFS, job, -n) <= 0 then", "if redis.call('HINCRBY', REFS, job, -n) <= 1 then"},
	{"prelude", "if string.sub(gateway, 1, 1) ~= '?' then", "if true then"},
	{"prelude", "known or string.sub(gateway, 2)", "known or gateway"},
	{"raise", "if f[1] and (less(term, f[1]) or term == f[1] and holder ~= f[2]) then return {'STALE_TERM', f[1]} end", ""},
	{"raise", "or term == f[1] and holder ~= f[2]", ""},
	{"assign", "if done[i] then", "if false then"},
	{"assign", "if string.sub(is[i], 1, 1) == 'c' then", "if false then"},
	{"assign", "elseif not again then", "else"},
	{"assign", "if #given >= room then", "if false then"},
	{"assign", "if not w[2] then return {'GONE'} end", ""},
	{"assigned", "if w[3] ~= gateway then redis.call('HSET', WORKER, 'gateway', gateway) end", ""},
	{"cancel", "local every = #ARGV < 6", "local every = false"},
	{"cancel", "local every = #ARGV < 6", "local every = true"},
	{"cancel", "lose(done)", ""},
	{"cancel", "remove(refs, is)", ""},
	{"settle", "lose(refs)", ""},
	{"settle", "remove(refs, redis.call('HMGET', HAS, unpack(refs)))", ""},
	{"drop", "if less(s, w[2]) then return {'OK'} end", ""},
	{"drop", "if not w[2] then return {'GONE'} end", ""},
	{"attach", "if not less(known, s) then return {'REPLACED', known} end", ""},
	{"attach", "over(w, w[4], 'replaced')", ""},
	{"attach", "if room <= 0 then", "if false then"},
	{"attach", "redis.call('HEXISTS', HAS, ref) == 0 and redis.call('HEXISTS', RESULTS, ref) == 0", "true"},
	{"beat", "if not named[ref] then\n    named[ref] = true", "if true then\n    named[ref] = true"},
	{"beat", "if less(done, before) then done = before end", ""},
	{"beat", "elseif redis.call('HEXISTS', RESULTS, ref) == 0 then", "else"},
	{"beat", "if tonumber(missed) < 1 then", "if false then"},
	{"beat", "elseif kind == 'c' then", "elseif false then"},
	{"beat", "w[3] = gateway", ""},
	{"beat", "or w[5] ~= draining", ""},
	{"beat", "w[3] ~= gateway or", ""},
	{"complete", "if bytes + more > limit or own + more > limit / 4 then return {'BUSY'} end", ""},
	{"complete", "or own + more > limit / 4", ""},
	{"complete", "bytes + more > limit or", ""},
	{"complete", "if taken[ref] or redis.call('HEXISTS', RESULTS, ref) == 1 then", "if taken[ref] then"},
	{"complete", "if is[i] and not taken[ref] then", "if is[i] then"},
	{"complete", "if is[i] and not taken[ref] then", "if not taken[ref] then"},
	{"complete", "remove(refs, is)", ""},
	{"complete", "if w[3] ~= gateway then redis.call('HSET', WORKER, 'gateway', gateway) end", ""},
	{"tick", "if w[1] == '1' then", "if false then"},
	{"bye", "if gone then\n", "if false then\n"},
	{"bye", "if gone and redis.call('HLEN', RESULTS) == 0 then forget() end", "if gone then forget() end"},
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
		tests := "^(TestSuite|TestOutages|TestSilence|TestElsewhere|TestMoves)$"
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

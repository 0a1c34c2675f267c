package flow

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/skein-project/skein/cluster/job"
)

// RunID names a run of a workflow: "w" and 26 lower-case base32 characters, derived
// from its owner's idempotency key, so that a retry names the same run.
type RunID string

const runIDChars = 26

// KeyPrefix begins the idempotency keys of the jobs of steps; nobody else's may.
const KeyPrefix = "wf:"

// NewRunID derives the id of the run that owner submits under key.
func NewRunID(owner, key string) RunID {
	h := sha256.New()
	h.Write([]byte("run1"))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(owner))))
	h.Write([]byte(owner))
	h.Write([]byte(key))
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	return RunID("w" + strings.ToLower(text[:runIDChars]))
}

// ParseRunID checks the form of s and returns it as a RunID.
func ParseRunID(s string) (RunID, error) {
	if len(s) != 1+runIDChars || s[0] != 'w' || strings.Trim(s[1:], "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", fmt.Errorf("%.64q is not the id of a run: want w and %d characters a-z, 2-7", s, runIDChars)
	}
	return RunID(s), nil
}

// JobKey is the idempotency key of the job that is a try at an instance of a step:
// whoever decides twice to begin it decides for the same job.
func JobKey(run RunID, step string, index, try int) string {
	return fmt.Sprintf("%s%s/%s[%d]#%d", KeyPrefix, run, step, index, try)
}

// RunOf is the run that a job is of, by its key.
func RunOf(key string) (RunID, bool) {
	rest, ok := strings.CutPrefix(key, KeyPrefix)
	if !ok {
		return "", false
	}
	of, _, _ := strings.Cut(rest, "/")
	id, err := ParseRunID(of)
	return id, err == nil
}

// ProviderKey is the key of the job that is the provider of such a try.
func ProviderKey(run RunID, step string, index, try int) string {
	return JobKey(run, step, index, try) + "/provider"
}

// JobOf is the id of the job of a try, whose owner is the run's.
func JobOf(owner string, run RunID, step string, index, try int) job.ID {
	return job.NewID(owner, JobKey(run, step, index, try))
}

-- assigned(id, session, gateway): all that a worker is to have.
-- -> OK, the number of the latest push, the term, refs, and a job and its spec for each job
local no = session(ARGV[2], ARGV[3])
if no then return no end
heard(ARGV[2], ARGV[4])
return state(ARGV[2])

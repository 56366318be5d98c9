// Package dynamo keeps objects, heads, plans, commands, grants, policies,
// approvals, Projects, Runs and the cursor keys in DynamoDB, and bodies that are too
// large for an item in a Blobs store.
//
// It is the edge: no AWS type and no AWS error leaves it. It knows no document
// and decides nothing; every decision of a caller arrives here as the condition
// of a write.
//
// # Tables
//
// Every key attribute is a string named pk or sk. The table names are given to New.
//
//	Heads    pk space        sk head                    commit, root, version
//	         pk ws/proj      sk project                 label, description, createdAt
//	         pk ws/proj      sk policy                  rules (JSON), version
//	         pk ws/proj      sk grant#<iss|sub>         rights, version
//	Objects  pk space#sha256:…  (no sort key)           body, enc, stagedAt; or blob instead of body
//	Changes  pk plan#<planRef>  sk plan                 a plan row, its space included; ttl 90 days after its creation
//	         pk space        sk cmd#<key>               planRef, planDigest, answer; never expires
//	         pk ws/proj      sk approval#<approvalRef>  an approval; usedBy once it is used
//	Runs     pk runRef       sk run                     run (JSON), version; dueShard, dueAt until it is terminal
//	         pk runRef       sk stage#<number>          result
//	         pk job#<jobRef> sk job                     job (JSON), version; dueShard, dueAt until it ended and was told
//	         pk queue        sk <createdAt>#<jobRef>    tenant, until; there while the job has not ended
//	         pk workers      sk <worker>                worker (JSON), version
//	         pk workers      sk fleet                   version, that grows with each worker started
//	Host     pk cursor       sk key#<kid>               key, createdAt
//	         pk sandbox      sk key                     key, createdAt: what signs jobs
//	         pk workspace#ws sk generation              version: the generation; count of instances; last: what changed
//	         pk workspace#ws sk instance#<instanceId>   a copy of the instance, while it is not removed
//	         pk workspace#ws sk connection#<connId>     a copy of the Connection without its secret
//	         pk members#ws   sk <iss|sub>               row: rights, version
//	         pk instance#id  sk instance                row, version; removed
//	         pk instance#id  sk slot#<capabilityId>     row, version; dueShard, dueAt
//	         pk connection#id    sk connection          row, version
//	         pk execution#id     sk execution           row, version; dueShard, dueAt until it has ended
//	         pk storage#ws#id#ns sk namespace           version, count of items, last
//	         pk storage#ws#id#ns sk item#<key>          value, version, updatedAt, written: the version of the namespace then
//	         pk notification#id  sk notification        row, version; dueShard, dueAt until it is told
//	         pk told#ws#iss|sub  sk <deliveredAt>#<id>  row, version: what was delivered
//
// Times are numbers of nanoseconds since 1970, so that conditions can compare
// them; stagedAt and ttl are seconds. Rows of Heads and Changes are read
// consistently. Objects are immutable, so an eventually consistent read of one is
// wrong only when it finds nothing, and only then is repeated consistently.
package dynamo

"""What the server of a site does for its own tasks of a job, whoever submitted it.

Admits the job, starts and watches workers, takes their reports, repairs what was lost. Runs at
every site, at the initiator's too. Decisions about the whole job belong to `initiator`; this
package does not import it.
"""

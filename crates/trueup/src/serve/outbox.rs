//! The outbox: mail as files in the data directory, until something sends it.
//!
//! Each file is a complete message (RFC 5322), readable by its owner alone because it has a code that signs somebody
//! in. A program that sends mail can pick the files up; without one, the command that invites prints the link.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;

use trueup_http::{InvitationMail, Mailer};

/// The folder of the outbox.
#[derive(Debug)]
pub(super) struct Outbox {
    pub(super) folder: PathBuf,
    /// The address of the dashboard, for links.
    pub(super) address: String,
}

impl Mailer for Outbox {
    fn invite(&self, mail: &InvitationMail<'_>) {
        if let Err(error) = self.write(mail) {
            let (id, folder) = (mail.id, self.folder.display());
            tracing::warn!(%error, %id, %folder, "cannot write the mail of an invitation");
        }
    }
}

impl Outbox {
    fn write(&self, mail: &InvitationMail<'_>) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let draft = self.folder.join(format!("{}.new", mail.id));
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(self.text(mail).as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, self.folder.join(format!("{}.eml", mail.id)))
    }

    /// The message. No field has a line break: names and addresses were checked when they were set.
    fn text(&self, mail: &InvitationMail<'_>) -> String {
        let InvitationMail { to, inviter, org, code, expires_at, .. } = mail;
        let (address, code) = (self.address.trim_end_matches('/'), code.reveal());
        [
            &format!("To: {to}"),
            &format!("Subject: Invitation to {org}"),
            "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=utf-8",
            "",
            &format!("{inviter} invites you to {org} on Trueup. Open this link to accept:"),
            "",
            &format!("{address}/invitation#{code}"),
            "",
            &format!("It works once, for {to} alone, until {expires_at}."),
            "",
        ]
        .join("\r\n")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use trueup_model::id::InvitationId;

    use super::*;

    #[test]
    fn mail_is_a_private_file_with_the_link() {
        let folder = std::env::temp_dir().join(format!("trueup-outbox-{}", std::process::id()));
        let outbox =
            Outbox { folder: folder.clone(), address: "https://trueup.example/".to_owned() };
        let id = InvitationId::from_parts(jiff::Timestamp::UNIX_EPOCH, [1; 10]);
        outbox.invite(&InvitationMail {
            id,
            to: &"grace@example.com".parse().unwrap(),
            inviter: "Ada",
            org: "acme",
            code: &"tu_invitation_abc".to_owned().into(),
            expires_at: jiff::Timestamp::UNIX_EPOCH,
        });
        let file = folder.join(format!("{id}.eml"));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(
            text.starts_with("To: grace@example.com\r\nSubject: Invitation to acme\r\n"),
            "{text}"
        );
        assert!(
            text.contains("\r\nhttps://trueup.example/invitation#tu_invitation_abc\r\n"),
            "{text}"
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
